# `cmake --install`: the program, the documents, and what network functions outside of this tree are built with
# (headers and a CMake package: find_package(Millrace), then millrace_add_nf).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET millrace-cli)
  install(TARGETS millrace-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY src/millrace/base src/millrace/packet src/millrace/nf
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace FILES_MATCHING PATTERN "*.hpp")
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/man)
  install(DIRECTORY man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
endif()
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
configure_package_config_file(cmake/MillraceConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/MillraceConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES cmake/MillraceNf.cmake ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfigVersion.cmake DESTINATION ${package})
