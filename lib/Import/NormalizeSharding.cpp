//===- NormalizeSharding.cpp - Drop shardings over one device -------------===//
//
// JAX adds a mesh without axes, and constraints that refer to it, to a program
// for one device if one of its values was placed there, such as a typed random
// key. They have no effect, and later stages do not expect them.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Import/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

namespace scalify {
#define GEN_PASS_DEF_NORMALIZESHARDINGPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static constexpr StringRef kShardingAttr = "sdy.sharding";

static bool isOneDevice(sdy::TensorShardingAttr sharding, Operation *op) {
  sdy::MeshAttr mesh = sharding ? sharding.getMesh(op) : sdy::MeshAttr();
  return mesh && mesh.getTotalSize() == 1;
}

/// True if every sharding of an attribute is over one device.
static bool isTrivial(Attribute attr, Operation *op) {
  if (auto each = dyn_cast_or_null<sdy::TensorShardingPerValueAttr>(attr))
    return llvm::all_of(each.getShardings(),
                        [&](auto one) { return isOneDevice(one, op); });
  return isOneDevice(dyn_cast_or_null<sdy::TensorShardingAttr>(attr), op);
}

static void cleanSignature(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (isTrivial(function.getArgAttr(i, kShardingAttr), function))
      function.removeArgAttr(i, kShardingAttr);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (isTrivial(function.getResultAttr(i, kShardingAttr), function))
      function.removeResultAttr(
          i, StringAttr::get(function.getContext(), kShardingAttr));
}

namespace {

struct NormalizeSharding
    : scalify::impl::NormalizeShardingPassBase<NormalizeSharding> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (isa<sdy::ShardingConstraintOp, sdy::ReshardOp>(op)) {
        if (isTrivial(op->getAttr("sharding"), op)) {
          op->getResult(0).replaceAllUsesWith(op->getOperand(0));
          op->erase();
        }
        return;
      }
      if (auto function = dyn_cast<func::FuncOp>(op))
        cleanSignature(function);
      if (isTrivial(op->getDiscardableAttr(kShardingAttr), op))
        op->removeDiscardableAttr(kShardingAttr);
    });
    for (auto mesh :
         llvm::make_early_inc_range(getOperation().getOps<sdy::MeshOp>()))
      if (SymbolTable::symbolKnownUseEmpty(mesh, getOperation()))
        mesh.erase();
  }
};

} // namespace
