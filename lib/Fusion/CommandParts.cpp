//===- CommandParts.cpp - Attributes of a cluster's command ---------------===//

#include "CommandParts.h"
#include "OpCosts.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/CastScales.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;

void scalify::copyPhase(const Cluster &cluster, Operation *first,
                        Operation *command) {
  PhaseAttr phase = getPhaseAttr(first);
  if (!phase)
    phase = getPhaseAttr(cluster);
  // The plan dialect does not depend on scalify's: it has the phase's name.
  if (phase)
    command->setAttr(plan::kCommandPhaseAttr,
                     StringAttr::get(command->getContext(),
                                     stringifyPhase(phase.getValue())));
  if (Attribute task = getTask(cluster))
    command->setAttr(plan::kTaskAttr, task);
}

std::string scalify::nameOf(const Cluster &cluster) {
  std::string name;
  unsigned parts = 0;
  for (Operation *op : llvm::reverse(cluster.ops)) {
    StringRef part = op->getName().stripDialect();
    if (isa<stablehlo::ConstantOp, stablehlo::BroadcastInDimOp,
            stablehlo::ReshapeOp>(op) ||
        StringRef(name).contains(part))
      continue;
    name += (parts ? "_" : "") + part.str();
    if (++parts == 4)
      break;
  }
  return name.empty() ? "broadcast" : name;
}

static bool isExponent(Value bits) {
  constexpr uint32_t kExponent = 0x7f800000;
  DenseElementsAttr mask;
  return matchPattern(bits, m_Constant(&mask)) && mask.isSplat() &&
         mask.getSplatValue<APInt>() == kExponent;
}

static bool areExact(DenseFPElementsAttr constant) {
  return llvm::all_of(constant.getValues<APFloat>(), [](const APFloat &value) {
    APFloat inverse(value.getSemantics());
    return value.getExactInverse(&inverse);
  });
}

/// True for the scales that steps carry: these are 0 or powers of two, and no
/// cast uses a 0.
static bool isCarriedState(BlockArgument argument) {
  auto name = getArgumentAttr(argument, kNameAttr);
  return name == StringAttr::get(argument.getContext(), kCarriedScalesName);
}

bool scalify::hasExactReciprocal(Value scale) {
  DenseFPElementsAttr constant;
  if (matchPattern(scale, m_Constant(&constant)))
    return areExact(constant);
  if (auto argument = dyn_cast<BlockArgument>(scale))
    return isCarriedState(argument);
  if (auto choice = scale.getDefiningOp<stablehlo::SelectOp>())
    return hasExactReciprocal(choice.getOnTrue()) &&
           hasExactReciprocal(choice.getOnFalse());
  Operation *def = scale.getDefiningOp();
  if (isa<stablehlo::SliceOp, stablehlo::ReshapeOp>(def))
    return hasExactReciprocal(def->getOperand(0));
  // A factor times a measured scale: both are far from the limits of F32.
  if (isa<stablehlo::MulOp, stablehlo::MaxOp, stablehlo::MinOp,
          stablehlo::ClampOp>(def))
    return llvm::all_of(def->getOperands(), hasExactReciprocal);
  auto word = scale.getDefiningOp<stablehlo::BitcastConvertOp>();
  if (!word || !typeOf(scale).getElementType().isF32())
    return false;
  auto masked = word.getOperand().getDefiningOp<stablehlo::AndOp>();
  return masked && llvm::any_of(masked.getOperands(), isExponent);
}
