//===- compile.cpp - A program with the compiler in it --------------------===//
//
//   compile STEP.mlir OUT.scalify
//
//===----------------------------------------------------------------------===//

#include "scalify/Pipeline/Compiler.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  if (argc != 3) {
    llvm::errs() << "usage: compile STEP.mlir OUT.scalify\n";
    return 2;
  }
  auto text = llvm::MemoryBuffer::getFile(argv[1]);
  if (!text) {
    llvm::errs() << "compile: " << text.getError().message() << "\n";
    return 1;
  }
  std::vector<scalify::DiagnosticRecord> diagnostics;
  auto options = scalify::parseCompileOptions(R"({"recipe": "none"})");
  if (!options) {
    llvm::errs() << "compile: " << llvm::toString(options.takeError()) << "\n";
    return 1;
  }
  auto made =
      scalify::compileToArtefact((*text)->getBuffer(), *options, diagnostics);
  for (const scalify::DiagnosticRecord &record : diagnostics)
    llvm::errs() << record.message << "\n";
  if (failed(made))
    return 1;
  std::error_code error;
  llvm::raw_fd_ostream(argv[2], error) << made->output;
  return error ? 1 : 0;
}
