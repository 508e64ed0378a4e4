# What is installed: the compiler for C++ (find_package(Scalify)), and the files of the Python
# package, component "python". The runtime's rules are its own (runtime/CMakeLists.txt).
include(CMakePackageConfigHelpers)
include(Man)

install(TARGETS scalify_mlir EXPORT ScalifyTargets)
get_property(libraries GLOBAL PROPERTY SCALIFY_LIBRARIES)
install(TARGETS ${libraries} EXPORT ScalifyTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS scalify-opt scalify-compile EXPORT ScalifyTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/scalify ${PROJECT_BINARY_DIR}/include/scalify
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "*.def" PATTERN CMakeFiles EXCLUDE)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/Scalify)
install(EXPORT ScalifyTargets NAMESPACE Scalify:: DESTINATION ${config})
configure_package_config_file(cmake/ScalifyConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ScalifyConfig.cmake INSTALL_DESTINATION ${config})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ScalifyConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ScalifyConfig.cmake
  ${PROJECT_BINARY_DIR}/ScalifyConfigVersion.cmake DESTINATION ${config})
install_man(${CMAKE_INSTALL_DATADIR} "scalify-opt;scalify-compile;scalify-run")

# The Python package, at the root of a wheel. The linker of kernels comes with it, so that machines
# without LLVM compile too. auditwheel adds libMLIR and libLLVM (make wheel).
set(package COMPONENT python EXCLUDE_FROM_ALL)
set(modules _compiler _runtime)
if(TARGET scalify_comm_mpi)
  list(APPEND modules scalify_comm_mpi)
endif()
install(TARGETS ${modules} LIBRARY DESTINATION scalify ${package})
install(TARGETS scalify-opt scalify-compile scalify-run RUNTIME DESTINATION scalify/bin ${package})
find_program(SCALIFY_LLD ld.lld HINTS ${LLVM_TOOLS_BINARY_DIR} NO_DEFAULT_PATH REQUIRED)
file(REAL_PATH ${SCALIFY_LLD} lld)
install(PROGRAMS ${lld} DESTINATION scalify/bin RENAME ld.lld-${LLVM_VERSION_MAJOR} ${package})
foreach(name scalify scalify_cli scalify_plan)
  install(DIRECTORY python/${name} DESTINATION . ${package} PATTERN __pycache__ EXCLUDE)
endforeach()
# A wheel's files for the environment's own share/, where man looks beside an environment's bin/.
install_man(${PROJECT_NAME}-${PROJECT_VERSION}.data/data/share
  "scalify;scalify-opt;scalify-compile;scalify-run;scalify-plan" ${package})
add_custom_target(scalify-package
  DEPENDS ${modules} scalify-opt scalify-compile scalify-run)
