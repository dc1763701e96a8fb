# `cmake --install build/release --prefix P` and `cpack -G DEB` in build/release: both programs, the shipped models,
# documents, manual pages, bash completion and a systemd unit.
#
# The target package_files is what they take from the build directory. Installing builds it first, so that neither needs a
# full build and neither builds tests. deploy/package_files.py, a test, finds what is installed and not part of it.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(GNUInstallDirs)
add_custom_target(package_files ALL DEPENDS varifocal varifocald)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target package_files
                COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)")
install(TARGETS varifocal varifocald RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/varifocal/models)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(FILES deploy/systemd/varifocald.service DESTINATION lib/systemd/system)
install(FILES deploy/grafana/varifocal.json DESTINATION ${CMAKE_INSTALL_DATADIR}/varifocal/grafana)
install(FILES deploy/nginx/varifocal.conf DESTINATION ${CMAKE_INSTALL_DATADIR}/varifocal/nginx)

# varifocal_install_generated(FILE DESTINATION): the output of a custom command.
function(varifocal_install_generated file destination)
  file(RELATIVE_PATH name ${CMAKE_BINARY_DIR} ${file})
  string(MAKE_C_IDENTIFIER package_file_${name} target)
  add_custom_target(${target} DEPENDS ${file})
  add_dependencies(package_files ${target})
  install(FILES ${file} DESTINATION ${destination})
endfunction()

set(completion ${CMAKE_BINARY_DIR}/completion/varifocal)
add_custom_command(OUTPUT ${completion}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/completion
  COMMAND varifocal completion > ${completion}
  DEPENDS varifocal VERBATIM)
varifocal_install_generated(${completion} ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

# varifocal_man_page(PROGRAM SUMMARY ARGUMENTS..): PROGRAM.1, generated from the program's output for these arguments.
function(varifocal_man_page program summary)
  set(page ${CMAKE_BINARY_DIR}/man/${program}.1)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${program}> "-DARGS=${ARGN}" -DNAME=${program} "-DSUMMARY=${summary}"
            -DOUT=${page} -P ${CMAKE_SOURCE_DIR}/cmake/ManPage.cmake
    DEPENDS ${program} ${CMAKE_SOURCE_DIR}/cmake/ManPage.cmake VERBATIM)
  varifocal_install_generated(${page} ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()
varifocal_man_page(varifocal "evaluates attention variants at long context lengths" help --all)
varifocal_man_page(varifocald "serves models and runs evaluation jobs" --help)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME varifocal)
set(CPACK_PACKAGE_CONTACT "Varifocal maintainers <maintainers@users.noreply.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Evaluates attention variants at long context lengths")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
