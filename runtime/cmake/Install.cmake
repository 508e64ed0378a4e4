# What is installed of the runtime: the shared library, its C headers, scalify-run and the
# transports, for find_package(ScalifyRuntime).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set_target_properties(scalify_runtime_shared PROPERTIES EXPORT_NAME runtime)
install(TARGETS scalify_runtime_shared scalify-run EXPORT ScalifyRuntimeTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET scalify_comm_mpi)
  # Opened from beside the library.
  install(TARGETS scalify_comm_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/scalify DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/ScalifyRuntime)
install(EXPORT ScalifyRuntimeTargets NAMESPACE ScalifyRuntime:: DESTINATION ${config})
configure_package_config_file(cmake/ScalifyRuntimeConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ScalifyRuntimeConfig.cmake INSTALL_DESTINATION ${config})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/ScalifyRuntimeConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ScalifyRuntimeConfig.cmake
  ${PROJECT_BINARY_DIR}/ScalifyRuntimeConfigVersion.cmake DESTINATION ${config})
