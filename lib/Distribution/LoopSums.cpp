//===- LoopSums.cpp - Sums that loops accumulate --------------------------===//

#include "LoopSums.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

Value scalify::getAddend(WhileOp loop, unsigned index) {
  Block &body = loop.getBody().front();
  BlockArgument carry = body.getArgument(index);
  auto add = body.getTerminator()->getOperand(index).getDefiningOp<AddOp>();
  if (!add || !add->hasOneUse() || !carry.hasOneUse())
    return {};
  if (add.getLhs() == carry)
    return add.getRhs();
  return add.getRhs() == carry ? add.getLhs() : Value();
}

bool scalify::startsFromZero(WhileOp loop, unsigned index) {
  Value start = lookThrough(loop->getOperand(index), Move::Broadcast);
  return matchPattern(start, m_AnyZeroFloat());
}
