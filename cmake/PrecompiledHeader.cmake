# One precompiled header for every library that sees MLIR. Parsing MLIR and the StableHLO ops takes
# four fifths of a file's compile time without it.
#
# ccache finds objects by the hash of the header's text (`.sum`), not by the precompiled file: that
# holds absolute paths, and two checkouts would share nothing. The sum is made anew with the file,
# and before any object that uses it.
file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
add_library(scalify_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
target_link_libraries(scalify_precompiled PRIVATE scalify_mlir)
target_precompile_headers(scalify_precompiled PRIVATE
  ${PROJECT_SOURCE_DIR}/include/scalify/Precompiled.h)
set_target_properties(scalify_precompiled PROPERTIES CXX_COMPILER_LAUNCHER "")
add_dependencies(scalify_precompiled scalify-headers)

set(SCALIFY_PRECOMPILED
  ${PROJECT_BINARY_DIR}/CMakeFiles/scalify_precompiled.dir/cmake_pch.hxx.pch)
add_custom_command(OUTPUT ${SCALIFY_PRECOMPILED}.sum
  COMMAND ${CMAKE_CXX_COMPILER} -std=c++17 -x c++-header -E -P
    -fmacro-prefix-map=${PROJECT_SOURCE_DIR}=. -fmacro-prefix-map=${PROJECT_BINARY_DIR}=build
    -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_BINARY_DIR}/include
    "-isystem$<JOIN:${LLVM_INCLUDE_DIRS};${MLIR_INCLUDE_DIRS},;-isystem>"
    ${PROJECT_SOURCE_DIR}/include/scalify/Precompiled.h -o precompiled.text
  COMMAND ${CMAKE_COMMAND} -E sha256sum precompiled.text > ${SCALIFY_PRECOMPILED}.sum
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
  DEPENDS ${SCALIFY_PRECOMPILED} VERBATIM COMMAND_EXPAND_LISTS)
add_custom_target(scalify-precompiled-sum DEPENDS ${SCALIFY_PRECOMPILED}.sum)

# Instrumented libraries need one of their own: its flags must be those of a library that uses it.
set(SCALIFY_FUZZ_PRECOMPILED
  ${PROJECT_BINARY_DIR}/CMakeFiles/scalify_fuzz_precompiled.dir/cmake_pch.hxx.pch)
if(SCALIFY_FUZZ)
  add_library(scalify_fuzz_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(scalify_fuzz_precompiled PRIVATE scalify_mlir)
  target_compile_options(scalify_fuzz_precompiled PRIVATE ${SCALIFY_FUZZ_FLAGS} -O1)
  target_precompile_headers(scalify_fuzz_precompiled PRIVATE
    ${PROJECT_SOURCE_DIR}/include/scalify/Precompiled.h)
  set_target_properties(scalify_fuzz_precompiled PROPERTIES CXX_COMPILER_LAUNCHER "")
  add_dependencies(scalify_fuzz_precompiled scalify-headers)
  add_custom_command(OUTPUT ${SCALIFY_FUZZ_PRECOMPILED}.sum
    COMMAND ${CMAKE_COMMAND} -E copy ${SCALIFY_PRECOMPILED}.sum ${SCALIFY_FUZZ_PRECOMPILED}.sum
    DEPENDS ${SCALIFY_PRECOMPILED}.sum VERBATIM)
  add_custom_target(scalify-fuzz-precompiled-sum DEPENDS ${SCALIFY_FUZZ_PRECOMPILED}.sum)
endif()

# scalify_use_precompiled(<target>): the target's flags must be those of scalify_precompiled, or,
# with FUZZ, those of scalify_fuzz_precompiled.
function(scalify_use_precompiled name)
  cmake_parse_arguments(ARG "FUZZ" "" "" ${ARGN})
  set(header ${SCALIFY_PRECOMPILED})
  set(targets scalify_precompiled scalify-precompiled-sum)
  if(ARG_FUZZ)
    set(header ${SCALIFY_FUZZ_PRECOMPILED})
    set(targets scalify_fuzz_precompiled scalify-fuzz-precompiled-sum)
  endif()
  # The driver's own option, which ccache knows to hold a path.
  target_compile_options(${name} PRIVATE "SHELL:-include-pch ${header}")
  add_dependencies(${name} ${targets})
endfunction()
