//===- SplitComplex.cpp - Complex numbers as two real tensors -------------===//
//
// Kernels and GEMMs compute real numbers. A complex tensor becomes its real and
// its imaginary part, so that scales, casts, fusion and memory need no rule of
// their own. An op without a form by parts, such as an FFT, gets its operands
// back as complex tensors.
//
//===----------------------------------------------------------------------===//

#include "ComplexMath.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Import/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace scalify {
#define GEN_PASS_DEF_SPLITCOMPLEXPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::import;
using namespace scalify::stablehlo;

static bool isComplex(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<ComplexType>(tensor.getElementType());
}

/// Returns the type of a part of a complex tensor; other types as they are.
static Type partOf(Type type) {
  if (!isComplex(type))
    return type;
  auto tensor = cast<RankedTensorType>(type);
  return tensor.clone(
      cast<ComplexType>(tensor.getElementType()).getElementType());
}

/// True if the parts of the results are the same op on the parts of the
/// operands.
static bool isByParts(Operation *op) {
  return isa<AddOp, SubtractOp, NegOp, SelectOp, BroadcastInDimOp, ReshapeOp,
             TransposeOp, SliceOp, DynamicSliceOp, DynamicUpdateSliceOp,
             ConcatenateOp, PadOp, GatherOp, ReverseOp, ReducePrecisionOp,
             AllGatherOp, AllToAllOp, CollectivePermuteOp>(op);
}

/// True if a body, as of a sum, keeps the parts apart.
static bool areBodiesByParts(Operation *op) {
  return llvm::all_of(op->getRegions(), [](Region &region) {
    return llvm::all_of(region.front().without_terminator(), [](Operation &op) {
      return isa<AddOp, SubtractOp, NegOp>(op);
    });
  });
}

namespace {
class Splitter {
public:
  void split(Block &block);
  unsigned numSplit = 0;

private:
  struct Pair {
    Value re, im;
  };
  Pair get(Value value);
  void set(Value value, Pair pair) { known[value] = pair; }
  void convert(Operation *op);
  void convertConstant(stablehlo::ConstantOp op);
  void convertConvert(ConvertOp op);
  void convertIota(IotaOp op);
  void convertCompare(CompareOp op);
  bool convertElementwise(Operation *op);
  void convertProduct(Operation *op);
  Operation *clonePart(Operation *op, ArrayRef<int> parts);
  void cloneParts(Operation *op);
  void expand(Operation *op);
  void expandBlock(Block &block);
  SmallVector<Value> expanded(ValueRange values);
  void leave(Operation *op);
  void eraseReplaced(Block &block);

  llvm::DenseMap<Value, Pair> known;
  llvm::DenseSet<Operation *> replaced; // to be erased
};

class SplitComplex : public scalify::impl::SplitComplexPassBase<SplitComplex> {
  void runOnOperation() override;
};
} // namespace

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Returns the parts of a complex value; those of an argument or of an op that
/// stays are taken from it.
Splitter::Pair Splitter::get(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  ImplicitLocOpBuilder b(value.getLoc(), value.getContext());
  b.setInsertionPointAfterValue(value);
  Pair pair = {RealOp::create(b, value), ImagOp::create(b, value)};
  return known[value] = pair;
}

SmallVector<Value> Splitter::expanded(ValueRange values) {
  SmallVector<Value> all;
  for (Value value : values) {
    if (isComplex(value.getType())) {
      Pair pair = get(value);
      all.append({pair.re, pair.im});
    } else {
      all.push_back(value);
    }
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

void Splitter::convertConstant(stablehlo::ConstantOp op) {
  OpBuilder b(op);
  auto type = cast<RankedTensorType>(partOf(op.getType()));
  auto value = cast<DenseElementsAttr>(op.getValue());
  SmallVector<APFloat> re, im;
  if (value.isSplat()) {
    auto one = value.getSplatValue<std::complex<APFloat>>();
    re.push_back(one.real());
    im.push_back(one.imag());
  } else {
    for (const std::complex<APFloat> &one :
         value.getValues<std::complex<APFloat>>()) {
      re.push_back(one.real());
      im.push_back(one.imag());
    }
  }
  auto make = [&](ArrayRef<APFloat> numbers) -> Value {
    return stablehlo::ConstantOp::create(
        b, op.getLoc(),
        cast<ElementsAttr>(DenseElementsAttr::get(type, numbers)));
  };
  set(op.getOutput(), {make(re), make(im)});
}

void Splitter::convertConvert(ConvertOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Type to = partOf(op.getType());
  if (!isComplex(op.getOperand().getType())) {
    Value re = ConvertOp::create(b, to, op.getOperand());
    set(op.getResult(), {re, buildZeros(b, b.getLoc(), to)});
    return;
  }
  Pair from = get(op.getOperand());
  Value re = ConvertOp::create(b, to, from.re);
  if (isComplex(op.getType()))
    set(op.getResult(), {re, ConvertOp::create(b, to, from.im)});
  else
    op.getResult().replaceAllUsesWith(re);
}

void Splitter::convertIota(IotaOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Type part = partOf(op.getType());
  Value re = IotaOp::create(b, part, op.getIotaDimension());
  set(op.getResult(), {re, buildZeros(b, b.getLoc(), part)});
}

void Splitter::convertCompare(CompareOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Pair lhs = get(op.getLhs()), rhs = get(op.getRhs());
  auto compare = [&](Value x, Value y) -> Value {
    return CompareOp::create(b, x, y, op.getComparisonDirection(),
                             ComparisonType::FLOAT);
  };
  Value re = compare(lhs.re, rhs.re), im = compare(lhs.im, rhs.im);
  bool isEqual = op.getComparisonDirection() == ComparisonDirection::EQ;
  op.getResult().replaceAllUsesWith(isEqual
                                        ? AndOp::create(b, re, im).getResult()
                                        : OrOp::create(b, re, im).getResult());
}

/// Returns false if the op is no function of complex numbers.
bool Splitter::convertElementwise(Operation *op) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  SmallVector<Parts> operands;
  for (Value operand : op->getOperands()) {
    if (!isComplex(operand.getType()))
      return false;
    Pair pair = get(operand);
    operands.push_back({{&b, pair.re}, {&b, pair.im}});
  }
  if (operands.empty())
    return false;
  if (isa<AbsOp>(op)) {
    op->getResult(0).replaceAllUsesWith(magnitude(operands[0]).value);
    return true;
  }
  std::optional<Parts> parts = buildComplex(op, operands);
  if (parts)
    set(op->getResult(0), {parts->re.value, parts->im.value});
  return parts.has_value();
}

//===----------------------------------------------------------------------===//
// Ops by parts
//===----------------------------------------------------------------------===//

/// Clones the op for one part (0: real, 1: imaginary) of each operand.
Operation *Splitter::clonePart(Operation *op, ArrayRef<int> parts) {
  OpBuilder b(op);
  IRMapping map;
  Operation *clone = b.clone(*op, map);
  for (auto [operand, part] : llvm::zip(clone->getOpOperands(), parts))
    if (isComplex(operand.get().getType())) {
      Pair pair = get(operand.get());
      operand.set(part ? pair.im : pair.re);
    }
  auto retype = [](ValueRange values) {
    for (Value value : values)
      value.setType(partOf(value.getType()));
  };
  clone->walk([&](Operation *inner) {
    retype(inner->getResults());
    for (Region &region : inner->getRegions())
      for (Block &block : region)
        retype(block.getArguments());
  });
  return clone;
}

void Splitter::cloneParts(Operation *op) {
  SmallVector<int> parts(op->getNumOperands(), 0);
  Operation *re = clonePart(op, parts);
  parts.assign(parts.size(), 1);
  Operation *im = clonePart(op, parts);
  for (auto [result, first, second] :
       llvm::zip(op->getResults(), re->getResults(), im->getResults()))
    set(result, {first, second});
}

/// (a + ib) (c + id) = (ac - bd) + i (ad + bc), for dots and convolutions.
void Splitter::convertProduct(Operation *op) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  auto product = [&](int lhs, int rhs) {
    return clonePart(op, {lhs, rhs})->getResult(0);
  };
  Value ac = product(0, 0), bd = product(1, 1);
  Value ad = product(0, 1), bc = product(1, 0);
  set(op->getResult(0),
      {SubtractOp::create(b, ac, bd), AddOp::create(b, ad, bc)});
}

//===----------------------------------------------------------------------===//
// Ops with regions
//===----------------------------------------------------------------------===//

/// Replaces complex arguments by their parts, and splits the ops.
void Splitter::expandBlock(Block &block) {
  // The comparator of a sort takes two elements of each operand in a row.
  unsigned run = isa<SortOp>(block.getParentOp()) ? 2 : 1;
  SmallVector<BlockArgument> complex;
  for (unsigned i = 0; i < block.getNumArguments(); i += run) {
    BlockArgument first = block.getArgument(i);
    if (!isComplex(first.getType()))
      continue;
    Type part = partOf(first.getType());
    for (unsigned j = 0; j < 2 * run; ++j)
      block.insertArgument(i + run + j, part, first.getLoc());
    for (unsigned j = 0; j < run; ++j) {
      set(block.getArgument(i + j),
          {block.getArgument(i + run + j), block.getArgument(i + 2 * run + j)});
      complex.push_back(block.getArgument(i + j));
    }
    i += 2 * run;
  }
  split(block);
  Operation *end = block.getTerminator();
  end->setOperands(expanded(end->getOperands()));
  eraseReplaced(block);
  for (BlockArgument argument : llvm::reverse(complex))
    block.eraseArgument(argument.getArgNumber());
}

/// Gives an op with regions two operands, results and arguments for each
/// complex one.
void Splitter::expand(Operation *op) {
  SmallVector<Type> types;
  for (Type type : op->getResultTypes())
    types.append(isComplex(type) ? 2 : 1, partOf(type));
  Operation *wide =
      stablehlo::rebuildOp(op, expanded(op->getOperands()), types);
  for (Region &region : wide->getRegions())
    for (Block &block : region)
      expandBlock(block);
  unsigned next = 0;
  for (Value result : op->getResults()) {
    Value first = wide->getResult(next++);
    if (isComplex(result.getType()))
      set(result, {first, wide->getResult(next++)});
    else
      result.replaceAllUsesWith(first);
  }
}

/// Gives an op that stays its complex operands.
void Splitter::leave(Operation *op) {
  OpBuilder b(op);
  for (OpOperand &operand : op->getOpOperands()) {
    auto found = known.find(operand.get());
    Operation *def = operand.get().getDefiningOp();
    if (found == known.end() || (def && !replaced.contains(def)))
      continue;
    Pair pair = found->second;
    operand.set(ComplexOp::create(b, op->getLoc(), pair.re, pair.im));
  }
}

void Splitter::eraseReplaced(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (replaced.erase(&op))
      op.erase();
}

//===----------------------------------------------------------------------===//
// Walk
//===----------------------------------------------------------------------===//

void Splitter::convert(Operation *op) {
  replaced.insert(op);
  ++numSplit;
  if (auto constant = dyn_cast<stablehlo::ConstantOp>(op);
      constant && isa<DenseElementsAttr>(constant.getValue()))
    return convertConstant(constant);
  if (auto pair = dyn_cast<ComplexOp>(op))
    return set(pair.getResult(), {pair.getLhs(), pair.getRhs()});
  if (auto real = dyn_cast<RealOp>(op))
    return real.getResult().replaceAllUsesWith(get(real.getOperand()).re);
  if (auto imag = dyn_cast<ImagOp>(op))
    return imag.getResult().replaceAllUsesWith(get(imag.getOperand()).im);
  if (auto to = dyn_cast<ConvertOp>(op))
    return convertConvert(to);
  if (auto compare = dyn_cast<CompareOp>(op))
    return convertCompare(compare);
  if (auto iota = dyn_cast<IotaOp>(op))
    return convertIota(iota);
  if (isa<BitcastConvertOp>(op) &&
      op->getOperand(0).getType() == op->getResult(0).getType())
    return set(op->getResult(0), get(op->getOperand(0)));
  if (isa<DotGeneralOp, ConvolutionOp>(op))
    return convertProduct(op);
  // Real results would be computed for each part.
  bool isAllComplex = llvm::all_of(op->getResultTypes(), isComplex);
  if (isByParts(op) ||
      (isa<ReduceOp, ReduceWindowOp, ScatterOp, AllReduceOp>(op) &&
       isAllComplex && areBodiesByParts(op)))
    return cloneParts(op);
  if (isControlFlow(op) ||
      isa<ReduceOp, ReduceWindowOp, ScatterOp, SortOp, OptimizationBarrierOp>(
          op))
    return expand(op);
  if (op->getNumRegions() == 0 && convertElementwise(op))
    return;
  replaced.erase(op);
  --numSplit;
  leave(op);
}

void Splitter::split(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : ops) {
    WalkResult found = op->walk([](Operation *inner) {
      bool hasComplex = llvm::any_of(inner->getOperandTypes(), isComplex) ||
                        llvm::any_of(inner->getResultTypes(), isComplex);
      return hasComplex ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (found.wasInterrupted())
      convert(op);
  }
  if (isa<func::ReturnOp>(block.getTerminator()))
    leave(block.getTerminator());
  if (!isa<func::FuncOp>(block.getParentOp()))
    return;
  eraseReplaced(block);
}

void SplitComplex::runOnOperation() {
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      continue;
    Splitter splitter;
    splitter.split(function.getBody().front());
    numSplit += splitter.numSplit;
  }
}
