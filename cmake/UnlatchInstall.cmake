# cmake --install: beside the program, the libraries with their headers, and find_package(unlatch).
include(CMakePackageConfigHelpers)

set(libraries unlatch_schedules unlatch_files unlatch_models unlatch_traces unlatch_sim unlatch_exec)
install(TARGETS ${libraries} unlatch_options
  EXPORT unlatch_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/unlatch)
if(TARGET unlatch_cuda)
  set_target_properties(unlatch_cuda PROPERTIES
    INSTALL_RPATH "$ORIGIN;${CUDAToolkit_LIBRARY_DIR}" BUILD_WITH_INSTALL_RPATH ON)
  # tools/demo builds only the program.
  install(TARGETS unlatch_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL)
  install(TARGETS unlatch_cuda LIBRARY DESTINATION lib COMPONENT bundle EXCLUDE_FROM_ALL)
  add_dependencies(bundle_programs unlatch_cuda)
endif()
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/unlatch)
install(EXPORT unlatch_targets NAMESPACE unlatch:: FILE unlatch-targets.cmake
  DESTINATION ${package_dir})
configure_package_config_file(cmake/unlatch-config.cmake.in
  ${PROJECT_BINARY_DIR}/unlatch-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/unlatch-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/unlatch-config.cmake
  ${PROJECT_BINARY_DIR}/unlatch-config-version.cmake DESTINATION ${package_dir})
