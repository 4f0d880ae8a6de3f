# Writes the ctest entries of a test program, one for each suite: cmake -DNAME=… -DPROGRAM=… -DLIST=… -P suites.cmake
# Suites of a program take turns, as they did when the program was one entry: some write files of the same name.
set(ENV{ASAN_OPTIONS} detect_leaks=0)
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${PROGRAM} cannot list its tests: ${failed}\n${listed}")
endif()
string(REGEX MATCHALL "(^|\n)[^ \n][^ \n]*\\." suites "${listed}")
set(entries "")
foreach(suite ${suites})
  string(STRIP "${suite}" suite)
  string(REGEX REPLACE "\\.$" "" suite "${suite}")
  string(APPEND entries "add_test(\"${NAME}.${suite}\" \"${PROGRAM}\" \"--gtest_filter=${suite}.*\")\n"
    "set_tests_properties(\"${NAME}.${suite}\" PROPERTIES RESOURCE_LOCK test_${NAME})\n")
  # What takes long begins early, so that no core is left without work in the end: a new tree has no times to go by.
  if("${NAME}.${suite}" MATCHES
    "^(device_cuda\\.(Compile|Examples/CompileChain)|exec_contract\\.OfThePacketPath.*|exec\\.All/Sizes|lab\\.Sessions|nf_golden\\.Filled/.*)$")
    string(APPEND entries "set_tests_properties(\"${NAME}.${suite}\" PROPERTIES COST 400)\n")
  endif()
  # Tests of devices must fail when these do. Left out are two suites that take a minute: all of their runs go through
  # one function, which expects their devices' work. That of golden tables is proved by each network function's.
  if(NOT "${NAME}.${suite}" MATCHES "^(exec_contract\\.OfThePacketPath|nf_golden\\.Filled)/")
    string(APPEND entries
      "set_tests_properties(\"${NAME}.${suite}\" PROPERTIES ENVIRONMENT MILLRACE_PROVE_DEVICES=1)\n")
  endif()
endforeach()
if(entries STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} has no tests")
endif()
file(WRITE ${LIST} "${entries}")
