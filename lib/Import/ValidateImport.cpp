//===- ValidateImport.cpp - Validate the contract of the Import stage -----===//

#include "ArgumentInfo.h"
#include "Phases/Phases.h"
#include "TypeLimits.h"
#include "scalify/Dialect/CHLO/CHLO.h"
#include "scalify/Dialect/Scalify/ScalifyHints.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Import/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_VALIDATEIMPORTPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

static LogicalResult checkModule(ModuleOp module, func::FuncOp main) {
  for (Operation &op : *module.getBody()) {
    if (&op == main || isa<scalify::sdy::MeshOp>(op))
      continue;
    if (isa<func::FuncOp>(op))
      return op.emitOpError("is left beside '@main'; "
                            "run --scalify-inline-calls first");
    return op.emitOpError("is not part of a training step");
  }
  return success();
}

static LogicalResult checkTypes(Operation *op, TypeRange types) {
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return op->emitOpError("has the type ")
             << type << ", which is no ranked tensor";
    if (!tensor.hasStaticShape())
      return op->emitOpError("has the type ")
             << type << "; shapes must be static, so trace the function "
             << "with concrete shapes";
    if (!isCountable(tensor.getShape()))
      return op->emitOpError("has the type ") << type << kUncountable;
  }
  return success();
}

static LogicalResult checkDialect(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  if (dialect == "stablehlo" || dialect == "sdy" || isa<func::ReturnOp>(op))
    return success();
  // XLA:GPU supports its groups; a form in stablehlo would multiply by every
  // group.
  if (isa<scalify::chlo::RaggedDotOp>(op))
    return success();
  // Hints of `scalify.lax`.
  if (isa<scalify::OverrideScaleOp, scalify::RescalePointOp,
          scalify::DataScaleOp>(op))
    return success();
  if (isa<func::CallOp>(op))
    return op->emitOpError("is left; run --scalify-inline-calls first");
  if (dialect == "chlo")
    return op->emitOpError("has no expansion in stablehlo for ")
           << (op->getNumOperands() ? op->getOperand(0).getType()
                                    : op->getResult(0).getType())
           << "; compute it outside of the compiled function or write it "
              "with other ops";
  return op->emitOpError("is not a stablehlo op");
}

/// Promoted elements that do not convert back to the same values.
static LogicalResult checkElements(Operation *op) {
  auto scatter = dyn_cast<stablehlo::SelectAndScatterOp>(op);
  if (!scatter)
    return success();
  Type operand = getElementTypeOrSelf(scatter.getOperand());
  Type result = getElementTypeOrSelf(scatter.getType());
  if (operand == result)
    return success();
  return op->emitOpError("selects elements of ")
         << operand << " and scatters in " << result
         << ", which does not hold all of them; convert its operands to f32";
}

static LogicalResult checkOp(Operation *op) {
  if (failed(checkDialect(op)) || failed(checkElements(op)) ||
      failed(checkTypes(op, op->getResultTypes())))
    return failure();
  for (Region &region : op->getRegions())
    for (Block &block : region)
      if (failed(checkTypes(op, block.getArgumentTypes())))
        return failure();
  if (!takesPhase(op))
    return success();
  if (!scalify::getPhaseAttr(op))
    return op->emitOpError("has no '")
           << scalify::kPhaseAttr << "'; run --scalify-annotate-phases first";
  return success();
}

static LogicalResult checkArgument(func::FuncOp main, unsigned index) {
  if (!scalify::getRoleAttr(main, index))
    return main.emitOpError("argument ")
           << index << " has no '" << scalify::kRoleAttr
           << "'; run --scalify-annotate-roles first";
  if (!main.getArgAttrOfType<StringAttr>(index, kNameAttr) ||
      main.getArgAttr(index, kDonorAttr))
    return main.emitOpError("argument ")
           << index << " has no name or a donation that is not paired; run "
           << "--scalify-normalize-donation first";
  std::optional<unsigned> result = getAliasedResult(main, index);
  if (result &&
      (*result >= main.getNumResults() ||
       main.getResultTypes()[*result] != main.getArgumentTypes()[index]))
    return main.emitOpError("argument ")
           << index << " is donated to result " << *result
           << ", which is not of its type";
  return success();
}

namespace {

struct ValidateImport : scalify::impl::ValidateImportPassBase<ValidateImport> {
  void runOnOperation() override {
    if (failed(check()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult check() {
    FailureOr<func::FuncOp> main = getMain(getOperation());
    if (failed(main) || failed(checkModule(getOperation(), *main)) ||
        failed(checkTypes(*main, main->getArgumentTypes())))
      return failure();
    WalkResult result =
        main->getBody().walk<WalkOrder::PreOrder>([](Operation *op) {
          return failed(checkOp(op)) ? WalkResult::interrupt()
                                     : WalkResult::advance();
        });
    if (result.wasInterrupted())
      return failure();
    for (unsigned index = 0; index < main->getNumArguments(); ++index)
      if (failed(checkArgument(*main, index)))
        return failure();
    return success();
  }
};

} // namespace
