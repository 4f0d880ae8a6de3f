# Writes OUT, a source with the stamp that plugins and the program compare: VERSION, and a digest of the headers below
# ROOT that both are compiled with. Run at build time, whenever one of them has changed.
file(GLOB headers RELATIVE ${ROOT} ${ROOT}/millrace/base/*.hpp ${ROOT}/millrace/base/*/*.hpp
  ${ROOT}/millrace/packet/*.hpp
  ${ROOT}/millrace/nf/*.hpp ${ROOT}/millrace/nf/state/*.hpp)
list(SORT headers)
set(all "")
foreach(header ${headers})
  file(SHA256 ${ROOT}/${header} digest)
  string(APPEND all "${header} ${digest}\n")
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 16 digest)
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [=[
#include <version>
#if defined(_LIBCPP_VERSION)
#define MILLRACE_LIBRARY "libc++"
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI
#define MILLRACE_LIBRARY "libstdc++"
#else
#define MILLRACE_LIBRARY "libstdc++ before C++11"
#endif
// Read from the file before any of a plugin's code runs.
extern "C" __attribute__((section(".millrace.abi"), visibility("hidden"))) const char millrace_abi[];
__attribute__((used)) const char millrace_abi[] = "@VERSION@, headers @digest@, " MILLRACE_LIBRARY;
]=])
