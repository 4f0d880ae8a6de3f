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
  # Tests of devices must fail when these do. Of two suites that take a minute some are proved, in an entry of their
  # own: all of their runs go through one function, which expects their devices' work.
  set(proved "${NAME}.${suite}")
  if("${NAME}.${suite}" MATCHES "^(exec_contract\\.OfThePacketPath|nf_golden\\.Filled)/")
    set(proved "${NAME}.${suite}.proved")
    set(some "${suite}.*/SimGateway:${suite}.*/SimRunsNids:${suite}.*/router_1:${suite}.*/ipsec_usual")
    string(APPEND entries "add_test(\"${proved}\" \"${PROGRAM}\" \"--gtest_filter=${some}\")\n"
      "set_tests_properties(\"${proved}\" PROPERTIES RESOURCE_LOCK test_${NAME})\n")
  endif()
  string(APPEND entries "set_tests_properties(\"${proved}\" PROPERTIES ENVIRONMENT MILLRACE_PROVE_DEVICES=1)\n")
endforeach()
if(entries STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} has no tests")
endif()
file(WRITE ${LIST} "${entries}")
