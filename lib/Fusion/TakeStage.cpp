//===- TakeStage.cpp - The program of one stage, proved to fit the others -===//
//
// Stages run different programs, so that what ranks do in the same order is
// not the same by construction. Here all programs are at hand: their messages
// are walked through as ranks would meet that keep nothing under way. Who comes
// to a message first waits there, so the pairs that meet, and whether all do,
// do not depend on who is fast: one walk is a proof.
//
//===----------------------------------------------------------------------===//

#include "scalify/Fusion/Passes.h"

namespace scalify {
#define GEN_PASS_DEF_TAKESTAGE
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Whether a message of one stage is the other end of that of its peer.
static bool doMeet(plan::MessageOp a, int64_t stageOfA, plan::MessageOp b,
                   int64_t stageOfB) {
  return a.isSend() != b.isSend() && a.getPeer() == stageOfB &&
         b.getPeer() == stageOfA;
}

static LogicalResult checkAgree(plan::MessageOp a, plan::MessageOp b) {
  if (a.getName() == b.getName() &&
      a.getMemory().getType() == b.getMemory().getType())
    return success();
  InFlightDiagnostic error =
      a.emitOpError("'") << a.getName() << "' of " << a.getMemory().getType()
                         << " meets '" << b.getName() << "' of "
                         << b.getMemory().getType();
  error.attachNote(b.getLoc()) << "the other end";
  return error;
}

static void noteHead(InFlightDiagnostic &error, size_t stage,
                     plan::MessageOp message) {
  error.attachNote(message.getLoc())
      << "stage " << stage << (message.isSend() ? " sends '" : " waits for '")
      << message.getName() << (message.isSend() ? "' to" : "' of") << " stage "
      << message.getPeer();
}

/// Walks all stages through their messages.
static LogicalResult
checkMessages(ArrayRef<SmallVector<plan::MessageOp>> stages) {
  SmallVector<size_t> next(stages.size(), 0);
  auto head = [&](size_t stage) {
    return next[stage] < stages[stage].size() ? stages[stage][next[stage]]
                                              : plan::MessageOp();
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      plan::MessageOp message = head(stage);
      if (!message)
        continue;
      auto peer = static_cast<size_t>(message.getPeer());
      if (peer >= stages.size() || peer == stage)
        return message.emitOpError("of stage ")
               << stage << " names stage " << peer << " of " << stages.size();
      plan::MessageOp other = head(peer);
      if (!other || !doMeet(message, stage, other, peer))
        continue;
      if (failed(checkAgree(message, other)))
        return failure();
      ++next[stage];
      ++next[peer];
      moved = true;
    }
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    if (!head(stage))
      continue;
    InFlightDiagnostic error =
        head(stage).emitOpError("is never met: stages would wait for ever");
    for (size_t other = 0; other < stages.size(); ++other)
      if (head(other))
        noteHead(error, other, head(other));
    return error;
  }
  return success();
}

namespace {
class TakeStagePass : public scalify::impl::TakeStageBase<TakeStagePass> {
public:
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
  SmallVector<SmallVector<plan::MessageOp>> messages;
  for (plan::ProgramOp program : programs)
    messages.push_back(
        llvm::to_vector(program.getBody().getOps<plan::MessageOp>()));
  if (failed(checkMessages(messages)))
    return signalPassFailure();
  if (stage < 0 || stage >= static_cast<int64_t>(programs.size())) {
    module.emitError("has no stage ") << stage << " of " << programs.size();
    return signalPassFailure();
  }
  NamedAttrList pipeline(
      module->getAttrOfType<DictionaryAttr>(plan::kPipelineAttr));
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
