# Man pages and completion of programs, written when they are installed: a page takes a second, which
# a build need not spend. Without help2man, or where a program cannot run, pages are left out with a
# warning: they are no reason to fail.

# install_man(<folder below the prefix> <programs> [<arguments of install()>...])
function(install_man folder programs)
  string(REPLACE ";" " " names "${programs}")
  install(CODE "
    execute_process(
      COMMAND ${PROJECT_SOURCE_DIR}/scripts/man.sh ${PROJECT_BINARY_DIR}/bin
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\" ${names}
      RESULT_VARIABLE failed)
    if(failed)
      message(WARNING \"not all man pages are installed; the reason is above\")
    endif()" ${ARGN})
endfunction()
