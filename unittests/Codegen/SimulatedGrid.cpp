//===- SimulatedGrid.cpp - A GPU's kernels on threads of the host ---------===//

#include "SimulatedGrid.h"

#include "scalify/Codegen/Passes.h"
#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Pipeline/InitAll.h"
#include "scalify/Pipeline/Stages.h"
#include "scalify/Target/CPU/Passes.h"

#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/Support/TargetSelect.h"

#include <gtest/gtest.h>

#include <pthread.h>
#include <random>
#include <thread>

using namespace mlir;
using namespace scalify;

//===----------------------------------------------------------------------===//
// The simulated grid
//===----------------------------------------------------------------------===//

namespace {
/// One block at a time; each of its threads is a thread of the host.
struct SharedBlock {
  explicit SharedBlock(int64_t threads) : floats(threads), words(threads) {
    pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(threads));
  }
  ~SharedBlock() { pthread_barrier_destroy(&barrier); }
  pthread_barrier_t barrier;
  std::vector<double> floats;
  std::vector<int64_t> words;
};

struct Place {
  int64_t thread = 0, threads = 1, block = 0, blocks = 1;
  SharedBlock *shared = nullptr;
};
} // namespace

static thread_local Place here;

static int64_t getThread() { return here.thread; }
static int64_t getThreads() { return here.threads; }
static int64_t getBlock() { return here.block; }
static int64_t getBlocks() { return here.blocks; }
static void waitForAll() { pthread_barrier_wait(&here.shared->barrier); }

template <typename T> static T combine(gpu::AllReduceOperation kind, T a, T b) {
  switch (kind) {
  case gpu::AllReduceOperation::ADD:
    return a + b;
  case gpu::AllReduceOperation::MUL:
    return a * b;
  case gpu::AllReduceOperation::MINIMUMF:
  case gpu::AllReduceOperation::MINSI:
  case gpu::AllReduceOperation::MINUI:
    return a != a || a < b ? a : b;
  case gpu::AllReduceOperation::MAXIMUMF:
  case gpu::AllReduceOperation::MAXSI:
  case gpu::AllReduceOperation::MAXUI:
    return a != a || a > b ? a : b;
  default:
    break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (kind == gpu::AllReduceOperation::AND)
      return a & b;
    if (kind == gpu::AllReduceOperation::OR)
      return a | b;
    return a ^ b;
  }
  return std::numeric_limits<T>::quiet_NaN();
}

template <typename T>
static T reduceOver(std::vector<T> &parts, T value, int32_t kind) {
  parts[here.thread] = value;
  waitForAll();
  T whole = parts[0];
  for (int64_t i = 1; i < here.threads; ++i)
    whole =
        combine(static_cast<gpu::AllReduceOperation>(kind), whole, parts[i]);
  waitForAll();
  return whole;
}
static double reduceFloat(double value, int32_t kind) {
  return reduceOver(here.shared->floats, value, kind);
}
static int64_t reduceWord(int64_t value, int32_t kind) {
  return reduceOver(here.shared->words, value, kind);
}

// FP8 rounding as in PTX, by LLVM's arithmetic: to the nearest finite value; a
// NaN becomes 0x7F whatever its sign.
static uint32_t encodeAsPTX(float value, bool isE4M3) {
  if (std::isnan(value))
    return 0x7f;
  const llvm::fltSemantics &format =
      isE4M3 ? APFloat::Float8E4M3FN() : APFloat::Float8E5M2();
  APFloat number(value), largest = APFloat::getLargest(format);
  bool lost;
  largest.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
  if (abs(number) > largest)
    number = APFloat::copySign(largest, number);
  number.convert(format, APFloat::rmNearestTiesToEven, &lost);
  return static_cast<uint32_t>(number.bitcastToAPInt().getZExtValue());
}
static int16_t encodePair(float high, float low, int32_t isE4M3) {
  return static_cast<int16_t>(encodeAsPTX(high, isE4M3 != 0) << 8 |
                              encodeAsPTX(low, isE4M3 != 0));
}
static int32_t decodePair(int16_t codes, int32_t isE4M3) {
  uint32_t halves = 0;
  for (unsigned shift : {0u, 8u}) {
    APFloat number(isE4M3 ? APFloat::Float8E4M3FN() : APFloat::Float8E5M2(),
                   APInt(8, (static_cast<uint16_t>(codes) >> shift) & 0xff));
    bool lost;
    number.convert(APFloat::IEEEhalf(), APFloat::rmNearestTiesToEven, &lost);
    halves |= static_cast<uint32_t>(number.bitcastToAPInt().getZExtValue())
              << (2 * shift);
  }
  return static_cast<int32_t>(halves);
}

//===----------------------------------------------------------------------===//
// Kernels for the simulated grid
//===----------------------------------------------------------------------===//

static Value callHost(OpBuilder &b, Location loc, void *function, Type result,
                      ValueRange arguments) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value address = LLVM::ConstantOp::create(
      b, loc, b.getI64IntegerAttr(reinterpret_cast<int64_t>(function)));
  SmallVector<Value> operands{
      LLVM::IntToPtrOp::create(b, loc, pointer, address)};
  llvm::append_range(operands, arguments);
  Type type = result ? result : LLVM::LLVMVoidType::get(b.getContext());
  auto call =
      LLVM::CallOp::create(b, loc,
                           LLVM::LLVMFunctionType::get(
                               type, SmallVector<Type>(arguments.getTypes())),
                           operands);
  return result ? call.getResult() : Value();
}

static void replacePlace(Operation *op, int64_t (*function)()) {
  OpBuilder b(op);
  Value word = callHost(b, op->getLoc(), reinterpret_cast<void *>(function),
                        b.getI64Type(), {});
  op->replaceAllUsesWith(ValueRange{
      arith::IndexCastOp::create(b, op->getLoc(), b.getIndexType(), word)});
  op->erase();
}

static void replaceReduction(gpu::AllReduceOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type type = op.getType();
  bool isFloat = isa<FloatType>(type);
  Type wide = isFloat ? Type(b.getF64Type()) : b.getI64Type();
  Value value = op.getValue();
  if (type != wide)
    value = isFloat ? Value(arith::ExtFOp::create(b, loc, wide, value))
                    : Value(arith::ExtSIOp::create(b, loc, wide, value));
  Value kind = LLVM::ConstantOp::create(
      b, loc, b.getI32IntegerAttr(static_cast<int32_t>(*op.getOp())));
  void *function = isFloat ? reinterpret_cast<void *>(reduceFloat)
                           : reinterpret_cast<void *>(reduceWord);
  Value whole = callHost(b, loc, function, wide, {value, kind});
  if (type != wide)
    whole = isFloat ? Value(arith::TruncFOp::create(b, loc, type, whole))
                    : Value(arith::TruncIOp::create(b, loc, type, whole));
  op.replaceAllUsesWith(whole);
  op.erase();
}

static Value isE4M3(OpBuilder &b, Location loc, Type type) {
  return LLVM::ConstantOp::create(
      b, loc, b.getI32IntegerAttr(isa<Float8E4M3FNType>(type)));
}

static void replaceEncoding(NVVM::ConvertF32x2ToF8x2Op op) {
  EXPECT_EQ(op.getRnd(), NVVM::FPRoundingMode::RN);
  EXPECT_EQ(op.getSat(), NVVM::SaturationMode::SATFINITE);
  OpBuilder b(op);
  Location loc = op.getLoc();
  op.replaceAllUsesWith(
      callHost(b, loc, reinterpret_cast<void *>(encodePair), b.getI16Type(),
               {op.getA(), op.getB(), isE4M3(b, loc, op.getDstTy())}));
  op.erase();
}

static void replaceDecoding(NVVM::ConvertF8x2ToF16x2Op op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value codes = LLVM::BitcastOp::create(b, loc, b.getI16Type(), op.getSrc());
  Value halves =
      callHost(b, loc, reinterpret_cast<void *>(decodePair), b.getI32Type(),
               {codes, isE4M3(b, loc, op.getSrcType())});
  op.getResult().replaceAllUsesWith(
      LLVM::BitcastOp::create(b, loc, op.getType(), halves));
  op.erase();
}

template <typename Op> static void replaceRounding(Op op) {
  EXPECT_EQ(op.getRnd(), NVVM::FPRoundingMode::RN);
  OpBuilder b(op);
  Value wide = vector::FromElementsOp::create(
      b, op.getLoc(), VectorType::get({2}, b.getF32Type()),
      ValueRange{op.getSrcLo(), op.getSrcHi()});
  Value narrow = arith::TruncFOp::create(b, op.getLoc(), op.getType(), wide);
  op.getResult().replaceAllUsesWith(narrow);
  op.erase();
}

// Only one block runs at a time, so its shared memory can be a global.
static void replaceMemory(memref::AllocaOp op) {
  if (!op.getType().getMemorySpace())
    return;
  OpBuilder b(op);
  auto type =
      MemRefType::get(op.getType().getShape(), op.getType().getElementType());
  auto module = op->getParentOfType<ModuleOp>();
  std::string name =
      "memory" + std::to_string(module.getBody()->getOperations().size());
  auto memory = memref::GetGlobalOp::create(b, op.getLoc(), type, name);
  b.setInsertionPointToStart(module.getBody());
  memref::GlobalOp::create(b, op.getLoc(), name, b.getStringAttr("private"),
                           type, b.getUnitAttr(), /*constant=*/false,
                           b.getI64IntegerAttr(16));
  op.replaceAllUsesWith(memory.getResult());
  op.erase();
}

static void simulateGrid(ModuleOp functions) {
  functions.walk(replaceMemory);
  functions.walk([](Operation *op) {
    if (auto rounding = dyn_cast<NVVM::ConvertF32x2ToF16x2Op>(op))
      replaceRounding(rounding);
    else if (auto rounding = dyn_cast<NVVM::ConvertF32x2ToBF16x2Op>(op))
      replaceRounding(rounding);
  });
  // The host has no BF16 arithmetic.
  RewritePatternSet patterns(functions.getContext());
  arith::populateExpandBFloat16Patterns(patterns);
  EXPECT_TRUE(succeeded(applyPatternsGreedily(functions, std::move(patterns))));
  functions.walk([](Operation *op) {
    if (auto encoding = dyn_cast<NVVM::ConvertF32x2ToF8x2Op>(op))
      return replaceEncoding(encoding);
    if (auto decoding = dyn_cast<NVVM::ConvertF8x2ToF16x2Op>(op))
      return replaceDecoding(decoding);
    if (isa<gpu::ThreadIdOp>(op))
      return replacePlace(op, getThread);
    if (isa<gpu::BlockDimOp>(op))
      return replacePlace(op, getThreads);
    if (isa<gpu::BlockIdOp>(op))
      return replacePlace(op, getBlock);
    if (isa<gpu::GridDimOp>(op))
      return replacePlace(op, getBlocks);
    if (auto reduction = dyn_cast<gpu::AllReduceOp>(op))
      return replaceReduction(reduction);
    if (isa<gpu::BarrierOp>(op)) {
      OpBuilder b(op);
      callHost(b, op->getLoc(), reinterpret_cast<void *>(waitForAll), {}, {});
      op->erase();
    }
  });
}

//===----------------------------------------------------------------------===//
// Both machines on the same memory
//===----------------------------------------------------------------------===//

namespace {
using KernelFn = void (*)(void *const *, int64_t, int64_t, uint64_t *);

/// The kernels of a program for one machine, callable in this process.
struct Machine {
  OwningOpRef<ModuleOp> module, functions;
  std::unique_ptr<ExecutionEngine> engine;
  SmallVector<plan::KernelOp> kernels;

  Machine(ModuleOp program, StringRef chip) : module(program.clone()) {
    PassManager lower(program.getContext());
    TargetAttr::set(*module, chip);
    lower.addPass(createLowerKernels());
    EXPECT_TRUE(succeeded(lower.run(*module)));
    module->walk([&](plan::KernelOp kernel) { kernels.push_back(kernel); });
    functions = ModuleOp::create(program.getLoc());
    for (auto function :
         llvm::make_early_inc_range(module->getOps<func::FuncOp>())) {
      function->remove();
      functions->push_back(function);
    }
    simulateGrid(*functions);
    PassManager toLLVM(program.getContext());
    toLLVM.addNestedPass<func::FuncOp>(createExpandMath());
    toLLVM.addPass(createKernelsToLLVM());
    EXPECT_TRUE(succeeded(toLLVM.run(*functions)));
    auto made = ExecutionEngine::create(*functions);
    EXPECT_TRUE(static_cast<bool>(made));
    engine = std::move(*made);
  }

  KernelFn find(plan::KernelOp kernel) {
    auto found = engine->lookup(*kernel.getFunction());
    EXPECT_TRUE(static_cast<bool>(found));
    return reinterpret_cast<KernelFn>(*found);
  }
};

/// Memory of a kernel's buffers, and the counts of its casts.
struct Memory {
  std::vector<std::vector<char>> buffers;
  std::vector<uint64_t> counters = std::vector<uint64_t>(64);

  std::vector<void *> pointers() {
    std::vector<void *> all;
    for (std::vector<char> &buffer : buffers)
      all.push_back(buffer.data());
    return all;
  }
};
} // namespace

static Type elementOf(Value buffer) {
  return cast<MemRefType>(buffer.getType()).getElementType();
}

static std::vector<char> makeBuffer(Value buffer, std::mt19937 &random) {
  auto type = cast<MemRefType>(buffer.getType());
  Type element = type.getElementType();
  int64_t bytes = std::max(1u, element.getIntOrFloatBitWidth() / 8);
  std::vector<char> data(type.getNumElements() * bytes + 64);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    float value = normal(random);
    // Indices below eight, and codes other than NaN.
    uint32_t word = random() % (element.isInteger(1) ? 2 : 8);
    if (auto format = dyn_cast<FloatType>(element)) {
      bool lost;
      APFloat number(value);
      number.convert(format.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                     &lost);
      word = static_cast<uint32_t>(number.bitcastToAPInt().getZExtValue());
    }
    std::memcpy(data.data() + i * bytes, &word, std::min<int64_t>(bytes, 4));
  }
  return data;
}

static double readElement(const std::vector<char> &data, Type element,
                          int64_t i) {
  unsigned width = std::max(8u, element.getIntOrFloatBitWidth());
  uint64_t word = 0;
  std::memcpy(&word, data.data() + i * (width / 8), width / 8);
  if (auto format = dyn_cast<FloatType>(element))
    return APFloat(format.getFloatSemantics(), APInt(width, word))
        .convertToDouble();
  return static_cast<double>(word);
}

static Memory makeMemory(plan::KernelOp kernel, unsigned seed) {
  std::mt19937 random(seed);
  Memory memory;
  for (Value read : kernel.getReads())
    memory.buffers.push_back(makeBuffer(read, random));
  for (Value write : kernel.getWrites())
    memory.buffers.push_back(makeBuffer(write, random));
  return memory;
}

/// Returns the buffers' addresses; an output in place has its input's.
static std::vector<void *> bind(plan::KernelOp kernel, Memory &memory) {
  std::vector<void *> all = memory.pointers();
  if (auto pairs = kernel.getInplace())
    for (size_t i = 0; i + 1 < pairs->size(); i += 2)
      all[kernel.getReads().size() + (*pairs)[i]] = all[(*pairs)[i + 1]];
  return all;
}

static void runOnGrid(KernelFn function, std::vector<void *> buffers,
                      uint64_t *counters, int64_t threads, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block) {
    SharedBlock shared(threads);
    std::vector<std::thread> all;
    for (int64_t thread = 0; thread < threads; ++thread)
      all.emplace_back([&, thread] {
        here = {thread, threads, block, blocks, &shared};
        function(buffers.data(), 0, 0, counters);
      });
    for (std::thread &thread : all)
      thread.join();
  }
}

/// True if the kernel sums in order only, on every machine.
static bool sumsInOrder(plan::KernelOp kernel) {
  auto sums = kernel.getBody().getOps<stablehlo::ReduceOp>();
  return llvm::all_of(sums, [](Operation *sum) {
    return sum->hasAttr(stablehlo::kInOrderAttr);
  });
}

static void compare(plan::KernelOp kernel, const std::vector<void *> &expected,
                    const std::vector<void *> &found) {
  bool isOfSums = !kernel.getBody().getOps<stablehlo::ReduceOp>().empty();
  for (auto [i, write] : llvm::enumerate(kernel.getWrites())) {
    Type element = elementOf(write);
    int64_t count = cast<MemRefType>(write.getType()).getNumElements();
    int64_t bytes = count * std::max(1u, element.getIntOrFloatBitWidth() / 8);
    size_t at = kernel.getReads().size() + i;
    auto copy = [&](void *data) {
      auto *begin = static_cast<char *>(data);
      return std::vector<char>(begin, begin + bytes);
    };
    std::vector<char> a = copy(expected[at]), b = copy(found[at]);
    double worst = 0, largest = 0;
    for (int64_t k = 0; k < count; ++k) {
      double x = readElement(a, element, k), y = readElement(b, element, k);
      // The code of a NaN may differ in sign and payload.
      if (x == y || (std::isnan(x) && std::isnan(y)))
        continue;
      bool isFinite = std::isfinite(x) && std::isfinite(y);
      largest = std::max(largest, isFinite ? std::fabs(x) : 0);
      worst = std::max(worst, isFinite ? std::fabs(x - y) : INFINITY);
    }
    // Tolerance of F32 sums in another order, and one unit in the last place of
    // a narrow format.
    double places =
        isa<FloatType>(element) && !(isOfSums && sumsInOrder(kernel))
            ? std::max(
                  std::ldexp(1.0,
                             -APFloat::semanticsPrecision(
                                 cast<FloatType>(element).getFloatSemantics()) +
                                 1),
                  1e-5)
            : 0;
    EXPECT_LE(worst, places * largest)
        << kernel.getName().str() << ", write " << i;
  }
}

void scalify::checkProgram(StringRef text, bool isPlan, uint64_t timesCounted) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  DialectRegistry registry;
  registerAllDialects(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registry.insert<func::FuncDialect, gpu::GPUDialect, LLVM::LLVMDialect>();
  MLIRContext context(registry);
  OwningOpRef<ModuleOp> program = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(program);
  if (!isPlan) {
    PassManager fusion(&context);
    buildStage(Stage::Fusion, /*toStableHLO=*/false, {}, fusion);
    ASSERT_TRUE(succeeded(fusion.run(*program)));
  }
  Machine cpu(*program, kCPU), gpu(*program, "sm_90a");
  ASSERT_GT(cpu.kernels.size(), 0u);
  ASSERT_EQ(cpu.kernels.size(), gpu.kernels.size());
  for (auto [i, kernel] : llvm::enumerate(cpu.kernels)) {
    Memory expected = makeMemory(kernel, i);
    auto buffers = bind(kernel, expected);
    cpu.find(kernel)(buffers.data(), 0, *kernel.getRows(),
                     expected.counters.data());
    // The last of a cast's six words has its scale, which only one kernel adds.
    for (auto [word, count] : llvm::enumerate(expected.counters))
      if (word % 6 != 5)
        count /= timesCounted;
    for (auto [threads, blocks] :
         {std::pair<int64_t, int64_t>{1, 1}, {4, 1}, {5, 3}}) {
      Memory found = makeMemory(kernel, i);
      auto others = bind(kernel, found);
      // A kernel with one row, such as a scatter, has one block.
      int64_t used = std::min(blocks, int64_t(*gpu.kernels[i].getRows()));
      runOnGrid(gpu.find(gpu.kernels[i]), others, found.counters.data(),
                threads, used);
      compare(kernel, buffers, others);
      EXPECT_EQ(expected.counters, found.counters) << kernel.getName().str();
    }
  }
}
