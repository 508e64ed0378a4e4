//===- TakeStage.cpp - The program of one stage, proved to fit the others -===//
//
// Stages run different programs, so the order of their exchanges does not match
// by construction. This pass has all programs and simulates them.
//
//===----------------------------------------------------------------------===//

#include "RankWalk.h"

#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_TAKESTAGE
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct TakeStagePass : scalify::impl::TakeStageBase<TakeStagePass> {
  using TakeStageBase::TakeStageBase;
  void runOnOperation() override;
};
} // namespace

void TakeStagePass::runOnOperation() {
  ModuleOp module = getOperation();
  SmallVector<plan::ProgramOp> programs;
  while (auto program = module.lookupSymbol<plan::ProgramOp>(
             "stage" + std::to_string(programs.size())))
    programs.push_back(program);
  if (programs.empty())
    return;
  auto shape = module->getAttrOfType<DictionaryAttr>(plan::kPipelineAttr);
  auto ranks = shape.getAs<IntegerAttr>("ranks");
  SmallVector<SmallVector<Operation *>> exchanges(programs.size());
  for (auto [stage, program] : llvm::enumerate(programs))
    exchanges[stage] = listExchanges(program);
  if (failed(simulateExchanges(exchanges, ranks ? ranks.getInt() : 1)))
    return signalPassFailure();
  if (stage < 0 || stage >= static_cast<int64_t>(programs.size())) {
    module.emitError("has no stage ") << stage << " of " << programs.size();
    return signalPassFailure();
  }
  NamedAttrList pipeline(shape);
  for (auto [number, program] : llvm::enumerate(programs)) {
    if (static_cast<int64_t>(number) != stage) {
      program.erase();
      continue;
    }
    program.setSymName("step");
    if (auto own = program->getAttrOfType<DictionaryAttr>(plan::kPipelineAttr))
      pipeline.append(own.getValue());
    program->removeAttr(plan::kPipelineAttr);
  }
  module->setAttr(plan::kPipelineAttr, pipeline.getDictionary(&getContext()));
}
