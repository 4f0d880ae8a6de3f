# Writes the ctest entries of a test program, one for each suite: cmake -DNAME=… -DPROGRAM=… -DLIST=… -DPROVED=… -P suites.cmake
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
  if(PROVED AND NOT suite MATCHES "LoadSteps$")  # a load in real time: its failing takes minutes
    string(APPEND entries "set_tests_properties(\"${NAME}.${suite}\" PROPERTIES ENVIRONMENT MILLRACE_PROVE_DEVICES=1)\n")
  endif()
endforeach()
if(entries STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} has no tests")
endif()
file(WRITE ${LIST} "${entries}")
