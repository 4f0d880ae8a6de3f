# Device halves are compiled a second time, at run time, for GPUs: their headers travel inside the
# program. This embeds every header below the given folders of `root` into `target`, under the name
# by which #include finds it.
function(millrace_embed_device_sources target root)
  set(patterns)
  foreach(folder ${ARGN})
    list(APPEND patterns ${root}/${folder}/*.hpp)
  endforeach()
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${root} ${patterns})
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target}_device_sources.cpp)
  # No header: this is compiled at each change of a device half.
  set(text "namespace millrace::nf {\nvoid register_device_source(const char* include_name, const char* begin, const char* end);\n}\nnamespace {\n")
  set(calls "")
  set(index 0)
  string(MAKE_C_IDENTIFIER ${target} symbol)
  foreach(header ${headers})
    string(APPEND text
      "asm(\".section .rodata\\n.global millrace_${symbol}_${index}\\nmillrace_${symbol}_${index}:\\n.incbin \\\"${root}/${header}\\\"\\n.global millrace_${symbol}_${index}_end\\nmillrace_${symbol}_${index}_end:\\n.byte 0\\n.previous\\n\");\n")
    string(APPEND text "extern \"C\" const char millrace_${symbol}_${index}[], millrace_${symbol}_${index}_end[];\n")
    string(APPEND calls
      "    millrace::nf::register_device_source(\"${header}\", millrace_${symbol}_${index}, millrace_${symbol}_${index}_end);\n")
    math(EXPR index "${index} + 1")
  endforeach()
  string(APPEND text "const bool registered = [] {\n${calls}    return true;\n}();\n}  // namespace\n")
  file(CONFIGURE OUTPUT ${generated} CONTENT "${text}" @ONLY)
  list(TRANSFORM headers PREPEND ${root}/)
  set_source_files_properties(${generated} PROPERTIES OBJECT_DEPENDS "${headers}" SKIP_PRECOMPILE_HEADERS ON
    SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${generated})
endfunction()

# Stamps `target` with what it is built against: the headers below the include folder `root`. A program refuses plugins
# with another stamp than its own, whose classes would be laid out differently.
set(MILLRACE_ABI_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/Abi.cmake)
function(millrace_stamp_abi target root)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target}_abi.cpp)
  file(GLOB headers CONFIGURE_DEPENDS
    ${root}/millrace/base/*.hpp ${root}/millrace/base/*/*.hpp ${root}/millrace/packet/*.hpp ${root}/millrace/nf/*.hpp
    ${root}/millrace/nf/state/*.hpp)
  add_custom_command(OUTPUT ${generated} DEPENDS ${headers} ${MILLRACE_ABI_SCRIPT} COMMENT ""
    COMMAND ${CMAKE_COMMAND} -DROOT=${root} -DOUT=${generated} -DVERSION=${millrace_VERSION} -P ${MILLRACE_ABI_SCRIPT})
  set_source_files_properties(${generated} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${generated})
endfunction()

# A network function outside of this tree, built as a plugin that `millrace --nf` loads:
#     millrace_add_nf(NAME ROOT folder-that-includes-start-from FOLDER folder/of/the/nf)
# compiles every .cpp of the folder and embeds its headers.
function(millrace_add_nf name)
  cmake_parse_arguments(NF "" "ROOT;FOLDER" "" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${NF_ROOT}/${NF_FOLDER}/*.cpp)
  add_library(${name} MODULE ${sources})
  set_target_properties(${name} PROPERTIES PREFIX "")
  target_include_directories(${name} PRIVATE ${NF_ROOT} $<TARGET_PROPERTY:millrace,INTERFACE_INCLUDE_DIRECTORIES>)
  if(MILLRACE_PORTABLE)
    millrace_finish_module(${name})
  endif()
  if(MILLRACE_PRECOMPILE)
    target_precompile_headers(${name} PRIVATE <millrace/nf/nf.hpp>)
  endif()
  # Symbols that are unique in a process would be the first loaded plugin's, also after it was built anew.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  millrace_embed_device_sources(${name} ${NF_ROOT} ${NF_FOLDER})
  millrace_stamp_abi(${name} ${MILLRACE_INCLUDE_ROOT})
endfunction()
