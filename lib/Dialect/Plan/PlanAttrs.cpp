//===- PlanAttrs.cpp - Verification of plan.* attributes ------------------===//

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/DiscardableAttrs.h"
#include "scalify/Dialect/Plan/Plan.h"

using namespace mlir;
using namespace scalify::discardable;
using namespace scalify::plan;

static bool isScaling(Attribute attr) {
  auto name = dyn_cast<StringAttr>(attr);
  return name && symbolizeScaling(name.getValue());
}

static constexpr Kind kTypes{areAll<TypeAttr>, "an array of types"};
static constexpr Kind kShapes{areAll<DenseI64ArrayAttr>,
                              "an array of arrays of i64"};
static constexpr Kind kScaling{isScaling, "the name of a plan.scaling"};

static constexpr Entry kEntries[] = {
    {kArgsAttr, OnOp, kRecords},
    {kResultsAttr, OnOp, kRecords},
    {kArgTypesAttr, OnOp, kTypes},
    {kResultTypesAttr, OnOp, kTypes},
    {kPipelineAttr, OnModule | OnOp, kRecord},
    {kGatheredBytesAttr, OnModule, kNumber},
    {kMaterialiseAttr, OnOp, kFlag},
    {kStackAttr, OnOp, kFlag},
    {kScaleEntryAttr, OnOp, kNumber},
    {kOperandScaleAttr, OnOp, kFlag},
    {kScalingAttr, OnOp, kScaling},
    {kGatheredAgainAttr, OnOp, kNumber},
    {kTaskAttr, OnOp, kText},
    {kOwnerAttr, OnArgument, kNumber},
    {kCommandPhaseAttr, OnOp, kText},
    {kStreamAttr, OnOp, kNumber},
    {kTilesAttr, OnOp, kNumbers64},
    {kCastsAttr, OnOp, kRecords},
    {kThreadsAttr, OnOp, kNumber},
    {kOffsetAttr, OnOp, kNumber},
    {kShapesAttr, OnOp, kShapes},
    {kExactReciprocalAttr, OnOp, kFlag},
    {kScaledAttr, OnOp, kFlag},
    {kUncountedCastAttr, OnOp, kFlag},
    {kReadsAttr, OnOp, kNumber},
    {kWritesAttr, OnOp, kNumber},
    {kInPlaceAttr, OnOp, kNumbers64},
};

static const Table &getTable() {
  static const Table table("plan", kEntries);
  return table;
}

LogicalResult PlanDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  return getTable().verify(op, attr);
}

LogicalResult PlanDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attr) {
  return getTable().verify(op, attr, OnArgument,
                           "argument " + std::to_string(index));
}

LogicalResult PlanDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                       unsigned index,
                                                       NamedAttribute attr) {
  return getTable().verify(op, attr, OnResult,
                           "result " + std::to_string(index));
}
