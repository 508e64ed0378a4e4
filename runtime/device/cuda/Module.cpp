#include "device/cuda/Module.h"
#include "support/Error.h"

#include <algorithm>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

static Owned<ModuleHandle> own(const Session &session, ModuleHandle handle) {
  return {handle, [driver = session.driver](ModuleHandle m) {
            driver->cuModuleUnload(m);
          }};
}

Module::Module(const Session &session, const Program &program,
               const Image &image) {
  for (const Function &function : program.functions)
    functions.resize(functions.size() + function.commands.size());
  const Driver &driver = *session.driver;
  for (const Function &function : program.functions)
    for (const Command &command : function.commands) {
      if (command.op != Command::Op::Kernel)
        continue;
      if (!module) {
        if (!program.hasKernels()) {
          // A recording shows the plan; `function` fails for its steps.
          if (driver.isAlone())
            continue;
          failWithoutKernels();
        }
        ModuleHandle handle = nullptr;
        if (program.cubin && program.cubin->size >= 4 &&
            driver.cuModuleLoadDataEx(&handle,
                                      image.data() + program.cubin->offset, 0,
                                      nullptr, nullptr) == Success)
          module = own(session, handle);
        else
          loadPtx(session,
                  std::string(reinterpret_cast<const char *>(image.data()) +
                                  program.kernels.offset,
                              size_t(program.kernels.size)));
      }
      FunctionHandle found = nullptr;
      Status status = driver.cuModuleGetFunction(&found, module.get(),
                                                 command.symbol.c_str());
      if (status == NotFound)
        badArtefact("the kernels section has no symbol '" + command.symbol +
                    "'");
      session.check(status, "cuModuleGetFunction");
      // The buffers, then the counters.
      driver.expect(found, command.buffers.size() + 1);
      functions[command.index] = found;
    }
}

FunctionHandle Module::function(const Command &command) const {
  if (!functions[command.index])
    failWithoutKernels();
  return functions[command.index];
}

void Module::loadPtx(const Session &session, const std::string &text) {
  std::vector<char> log(8192);
  JitOption options[] = {JitErrorLog, JitErrorLogBytes};
  // A number cast to a pointer, as the interface requires.
  void *values[] = {log.data(), pointer(log.size() - 1)};
  ModuleHandle handle = nullptr;
  // A string, since the driver requires a terminating zero.
  Status status = session.driver->cuModuleLoadDataEx(&handle, text.c_str(), 2,
                                                     options, values);
  if (status == Success) {
    module = own(session, handle);
    return;
  }
  try {
    session.check(status, "cuModuleLoadDataEx");
  } catch (const Error &error) {
    std::string reason = error.what();
    if (log[0])
      reason += std::string("; the driver's compiler says: ") + log.data();
    if (status == UnsupportedPtxVersion)
      unsupported(reason + "; the driver is older than the PTX: update it");
    throw Error(status == InvalidPtx ? SCALIFY_RT_BAD_ARTEFACT : error.status,
                reason);
  }
}
