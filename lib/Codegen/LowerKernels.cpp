//===- LowerKernels.cpp - One function for each distinct kernel -----------===//

#include "KernelSchedule.h"

#include "scalify/Codegen/Passes.h"
#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Plan/PlanTiles.h"
#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/AsmState.h"
#include "llvm/ADT/StringMap.h"

namespace scalify {
#define GEN_PASS_DEF_LOWERKERNELS
#include "scalify/Codegen/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct LowerKernelsPass : scalify::impl::LowerKernelsBase<LowerKernelsPass> {
  void runOnOperation() override;

private:
  struct Known {
    StringAttr symbol;
    codegen::KernelRows rows;
  };
  LogicalResult lower(plan::KernelOp kernel);

  llvm::StringMap<Known> known;
};
} // namespace

// Returns the key of a kernel's function, which kernels with equal keys share:
// the body, and which outputs alias which inputs.
static std::string keyOf(plan::KernelOp kernel) {
  std::string key;
  llvm::raw_string_ostream os(key);
  OpPrintingFlags flags;
  flags.useLocalScope().printGenericOpForm();
  for (BlockArgument argument : kernel.getBody().getArguments())
    os << argument.getType() << ";";
  AsmState state(kernel, flags);
  for (Operation &op : kernel.getBody().front())
    op.print(os, state);
  if (auto pairs = kernel.getInplace())
    llvm::interleaveComma(*pairs, os << "inplace");
  if (std::optional<plan::Tiling> tiling = plan::tilingOf(kernel))
    os << "tiles" << tiling->tiles;
  return key;
}

LogicalResult LowerKernelsPass::lower(plan::KernelOp kernel) {
  Known &entry = known[keyOf(kernel)];
  if (!entry.symbol) {
    auto module = getOperation();
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    std::string name = "k" + std::to_string(known.size() - 1);
    auto function = func::FuncOp::create(b, kernel.getLoc(), name,
                                         codegen::kernelFunctionType(kernel));
    bool isGPU = TargetAttr::of(module).isGPU;
    FailureOr<codegen::KernelRows> rows = codegen::emitKernel(
        kernel, function,
        isGPU ? codegen::Machine::GPU : codegen::Machine::CPU);
    if (failed(rows)) {
      function.erase();
      return kernel.emitOpError("could not be lowered");
    }
    // Outputs that alias an input must not be noalias.
    if (kernel.getInplace())
      function->setAttr(
          plan::kInPlaceAttr,
          DenseI64ArrayAttr::get(&getContext(), *kernel.getInplace()));
    function->setAttr(plan::kReadsAttr,
                      b.getI64IntegerAttr(kernel.getReads().size()));
    function->setAttr(plan::kWritesAttr,
                      b.getI64IntegerAttr(kernel.getWrites().size()));
    if (isGPU)
      function->setAttr(plan::kThreadsAttr, b.getI64IntegerAttr(rows->threads));
    entry = {b.getStringAttr(name), *rows};
    ++numFunctions;
  }
  kernel.setFunctionAttr(FlatSymbolRefAttr::get(entry.symbol));
  kernel.setRows(entry.rows.rows);
  kernel.setGrain(entry.rows.grain);
  if (TargetAttr::of(kernel).isGPU)
    kernel->setAttr(
        plan::kThreadsAttr,
        Builder(&getContext()).getI64IntegerAttr(entry.rows.threads));
  ++numKernels;
  return success();
}

void LowerKernelsPass::runOnOperation() {
  known.clear();
  SmallVector<plan::KernelOp> kernels;
  getOperation().walk(
      [&](plan::KernelOp kernel) { kernels.push_back(kernel); });
  for (plan::KernelOp kernel : kernels)
    if (failed(lower(kernel)))
      return signalPassFailure();
}
