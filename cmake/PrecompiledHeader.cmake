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

# scalify_use_precompiled(<target>): the target's flags must be those of scalify_precompiled.
function(scalify_use_precompiled name)
  # The driver's own option, which ccache knows to hold a path.
  target_compile_options(${name} PRIVATE "SHELL:-include-pch ${SCALIFY_PRECOMPILED}")
  add_dependencies(${name} scalify_precompiled scalify-precompiled-sum)
endfunction()
