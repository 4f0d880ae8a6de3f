cmake_minimum_required(VERSION 3.25)
# Run at every build: writes OUT, a header that names the commit, when that has changed.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define MILLRACE_COMMIT \"@commit@\"\n" @ONLY)
