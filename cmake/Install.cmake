# `cmake --install`: the program, its manual pages and completion, the documents, and what network functions outside of
# this tree are built with (headers and a CMake package: find_package(Millrace), then millrace_add_nf).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET millrace-cli)
  install(TARGETS millrace-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY src/millrace/base src/millrace/packet src/millrace/nf
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/millrace FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 FILES_MATCHING PATTERN "*.5")
install(FILES scripts/completion/millrace.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME
  millrace)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN
  "man" EXCLUDE)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
configure_package_config_file(cmake/MillraceConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/MillraceConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES cmake/MillraceNf.cmake cmake/Abi.cmake ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/MillraceConfigVersion.cmake DESTINATION ${package})
