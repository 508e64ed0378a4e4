#include "comm/mpi/HelpTexts.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <memory>
#include <mpi.h>

namespace {
// As in opal/util/show_help.h, which is no stable interface: each symbol is
// looked up, and its kind is checked.
using Render = char *(*)(const char *, const char *, bool, va_list);
using Show = int (*)(const char *, const char *, int, ...);
using ShowList = int (*)(const char *, const char *, bool, va_list);
Render render = nullptr;

int showList(const char *file, const char *topic, bool hasHeader,
             va_list values) {
  char *text = render(file, topic, hasHeader, values);
  if (text)
    std::fputs(text, stderr);
  std::free(text); // from asprintf
  return 0;
}

int show(const char *file, const char *topic, int hasHeader, ...) {
  va_list values;
  va_start(values, hasHeader);
  int result = showList(file, topic, hasHeader != 0, values);
  va_end(values);
  return result;
}

/// Opens MPI's library. Lookups in it also find its dependencies' symbols.
std::shared_ptr<void> openMpi() {
  Dl_info info;
  if (!::dladdr(reinterpret_cast<void *>(&MPI_Init_thread), &info))
    return nullptr;
  return {::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD), [](void *handle) {
            if (handle)
              ::dlclose(handle);
          }};
}

/// Returns the function pointer variable of that name, or null.
template <typename Function>
Function *findVariable(void *library, const char *name) {
  void *address = ::dlsym(library, name), *found = nullptr;
  Dl_info info;
  if (!address || !::dladdr1(address, &info, &found, RTLD_DL_SYMENT) || !found)
    return nullptr;
  const auto *symbol = static_cast<const ElfW(Sym) *>(found);
  if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
      symbol->st_size != sizeof(Function))
    return nullptr;
  return static_cast<Function *>(address);
}
} // namespace

void scalify::rt::mpi::writeHelpTexts() {
  std::shared_ptr<void> mpi = openMpi();
  if (!mpi)
    return;
  render =
      reinterpret_cast<Render>(::dlsym(mpi.get(), "opal_show_help_vstring"));
  auto *one = findVariable<Show>(mpi.get(), "opal_show_help");
  auto *other = findVariable<ShowList>(mpi.get(), "opal_show_vhelp");
  if (!render || !one || !other)
    return;
  *one = show;
  *other = showList;
}
