//===- Manifest.cpp - Manifest of an artefact -----------------------------===//

#include "scalify/Target/Artefact/Manifest.h"
#include "scalify/Dialect/Scalify/Donation.h"

#include "ManifestCounters.h"
#include "ManifestParts.h"
#include "ManifestTrial.h"
#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/Plan/PlanMemory.h"
#include "scalify/Dialect/Plan/PlanStreams.h"
#include "scalify/Dialect/Plan/PlanTiles.h"
#include "scalify/Dialect/Scalify/ElementAttr.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Import/Locations.h"

#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace scalify;
namespace json = llvm::json;

static constexpr size_t kConstantAlignment = 64;

static json::Array shapeOf(ArrayRef<int64_t> shape) {
  return json::Array(shape);
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

static void appendElement(std::string &bytes, const APInt &bits, int64_t size) {
  uint64_t word = bits.getZExtValue();
  for (int64_t i = 0; i < size; ++i)
    bytes.push_back(static_cast<char>(word >> (8 * i)));
}

// Row-major, little-endian, one byte for an i1.
static void appendConstant(std::string &bytes, ElementsAttr value) {
  Type element = value.getElementType();
  int64_t size = plan::elementBytes(element);
  if (auto dense = dyn_cast<DenseElementsAttr>(value);
      dense && !dense.isSplat() && !element.isInteger(1)) {
    ArrayRef<char> raw = dense.getRawData();
    bytes.append(raw.begin(), raw.end());
    return;
  }
  if (isa<FloatType>(element)) {
    for (APFloat number : value.getValues<APFloat>())
      appendElement(bytes, number.bitcastToAPInt(), size);
    return;
  }
  for (const APInt &number : value.getValues<APInt>())
    appendElement(bytes, number, size);
}

//===----------------------------------------------------------------------===//
// Writer
//===----------------------------------------------------------------------===//

namespace {
class ManifestWriter {
public:
  ManifestWriter(plan::ProgramOp program, std::string &constants,
                 manifest::Counters &counters)
      : program(program), constants(constants), counters(counters),
        runs(manifest::countRuns(program)) {}

  /// Marks what a trial of the step leaves out.
  void markTrial() { trial = manifest::findTrial(program); }

  /// Writes arguments, results, buffers and the arena's size; returns the
  /// commands.
  json::Array write(json::Object &manifest);

private:
  void writeBuffer(Operation &op);
  json::Object kernel(plan::KernelOp op);
  json::Object gemm(plan::GemmOp op);
  json::Object attention(plan::AttentionOp op);
  json::Object hostCall(plan::HostCallOp op);
  json::Object lapack(plan::LapackOp op);
  json::Object collective(plan::CollectiveOp op);
  json::Object message(plan::MessageOp op);
  json::Object loop(plan::LoopOp op);
  void writeArgs(json::Object &manifest);
  int64_t index(Value buffer) const { return indices.lookup(buffer); }
  json::Array listed(ValueRange buffers) const;

  plan::ProgramOp program;
  std::string &constants;
  manifest::Counters &counters;
  std::optional<int64_t> runs; // of the program in one step
  manifest::Trial trial;
  llvm::DenseMap<Value, int64_t> indices;
  json::Array buffers, commands;
};
} // namespace

void ManifestWriter::writeBuffer(Operation &op) {
  Value memory = op.getResult(0);
  auto type = cast<MemRefType>(memory.getType());
  json::Object buffer{{"dtype", manifest::typeName(type.getElementType())},
                      {"shape", shapeOf(type.getShape())}};
  if (auto offset = op.getAttrOfType<IntegerAttr>(plan::kOffsetAttr))
    buffer["offset"] = offset.getInt();
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](plan::ArgumentOp arg) {
        buffer["kind"] = "arg";
        buffer["index"] = arg.getIndex();
      })
      .Case([&](plan::ResultOp result) {
        buffer["kind"] = "result";
        buffer["index"] = result.getIndex();
      })
      .Case([&](plan::RankOp) { buffer["kind"] = "rank"; })
      .Case([&](plan::TempOp temp) {
        buffer["kind"] = temp.getTiles() ? "tile" : "temp";
        if (temp.getTiles())
          buffer["tiles"] = *temp.getTiles();
        buffer["offset"] = temp.getOffset().value_or(0);
      })
      .Case([&](plan::ConstantOp constant) {
        constants.resize(llvm::alignTo(constants.size(), kConstantAlignment));
        buffer["kind"] = "const";
        buffer["offset"] = static_cast<int64_t>(constants.size());
        appendConstant(constants, constant.getValue());
      });
  indices[memory] = buffers.size();
  buffers.push_back(std::move(buffer));
}

json::Object ManifestWriter::kernel(plan::KernelOp op) {
  json::Array bufs;
  int64_t bytes = 0;
  for (ValueRange range :
       {ValueRange(op.getReads()), ValueRange(op.getWrites())})
    for (Value buffer : range) {
      bufs.push_back(index(buffer));
      bytes += plan::bufferBytes(buffer);
    }
  json::Object command{{"op", "kernel"},
                       {"symbol", op.getFunction().value_or("").str()},
                       {"bufs", std::move(bufs)},
                       {"rows", op.getRows().value_or(1)},
                       {"grain", op.getGrain().value_or(1)},
                       {"name", op.getName().str()},
                       {"loc", describeLocation(op.getLoc())},
                       {"bytes", bytes}};
  counters.add(op, runs, command);
  if (auto threads = op->getAttrOfType<IntegerAttr>(plan::kThreadsAttr)) {
    command["threads"] = threads.getInt();
    command["reads"] = static_cast<int64_t>(op.getReads().size());
  }
  return command;
}

json::Object ManifestWriter::gemm(plan::GemmOp op) {
  json::Array batch;
  for (auto [i, extent] : llvm::enumerate(op.getBatch())) {
    ArrayRef<int64_t> strides = op.getBatchStrides().slice(3 * i, 3);
    batch.push_back(json::Object{{"n", extent},
                                 {"a", strides[0]},
                                 {"b", strides[1]},
                                 {"c", strides[2]}});
  }
  Type element = cast<MemRefType>(op.getC().getType()).getElementType();
  json::Object command{{"op", "gemm"},
                       {"name", op.getName().str()},
                       {"loc", describeLocation(op.getLoc())},
                       {"a", index(op.getA())},
                       {"b", index(op.getB())},
                       {"c", index(op.getC())},
                       {"dtype", manifest::typeName(element)},
                       {"m", op.getM()},
                       {"n", op.getN()},
                       {"k", op.getK()},
                       {"a_off", op.getOffsets()[0]},
                       {"b_off", op.getOffsets()[1]},
                       {"c_off", op.getOffsets()[2]},
                       {"a_strides", shapeOf(op.getAStrides())},
                       {"b_strides", shapeOf(op.getBStrides())},
                       {"c_strides", shapeOf(op.getCStrides())},
                       {"batch", std::move(batch)},
                       {"alpha", op.getAlpha().convertToDouble()},
                       {"beta", 0.0}};
  if (!op.getScales().empty()) {
    command["a_scale"] = index(op.getScales()[0]);
    command["b_scale"] = index(op.getScales()[1]);
    command["a_scaling"] = plan::stringifyScaling(op.getAScaling()).str();
    command["b_scaling"] = plan::stringifyScaling(op.getBScaling()).str();
  }
  if (op.getEpilogue() != plan::Epilogue::None)
    command["epilogue"] = plan::stringifyEpilogue(op.getEpilogue()).str();
  if (op.getBias()) {
    command["bias"] = index(op.getBias());
    command["bias_off"] = op.getOffsets()[3];
  }
  if (op.getAux())
    command[hasFP8Elements(op.getC().getType()) ? "amax" : "aux"] =
        index(op.getAux());
  if (op.getInto())
    command["c_scale"] = index(op.getInto());
  if (op.getSaved())
    command["saved"] = index(op.getSaved());
  if (op.getFastAccumulation())
    command["fast_accumulation"] = true;
  if (op.getTf32())
    command["compute"] = "tf32";
  return command;
}

json::Array ManifestWriter::listed(ValueRange buffers) const {
  json::Array list;
  for (Value buffer : buffers)
    list.push_back(index(buffer));
  return list;
}

json::Object ManifestWriter::attention(plan::AttentionOp op) {
  return json::Object{{"op", "attention"},
                      {"name", op.getName().str()},
                      {"loc", describeLocation(op.getLoc())},
                      {"reads", listed(op.getReads())},
                      {"writes", listed(op.getWrites())},
                      {"sizes", shapeOf(op.getSizes())},
                      {"windows", shapeOf(op.getWindows())},
                      {"scale", op.getScale().convertToDouble()},
                      {"causal", op.getCausal()},
                      {"gradient", op.getGradient()}};
}

json::Object ManifestWriter::lapack(plan::LapackOp op) {
  return json::Object{{"op", "lapack"},
                      {"name", op.getRoutine()},
                      {"loc", describeLocation(op.getLoc())},
                      {"routine", op.getRoutine()},
                      {"reads", listed(op.getReads())},
                      {"writes", listed(op.getWrites())},
                      {"work", index(op.getWork())},
                      {"sizes", shapeOf(op.getSizes())},
                      {"letters", op.getLetters()},
                      {"complex", op.getIsComplex()}};
}

json::Object ManifestWriter::hostCall(plan::HostCallOp op) {
  json::Object command{{"op", "host_call"},
                       {"name", op.getName().str()},
                       {"loc", describeLocation(op.getLoc())},
                       {"reads", listed(op.getReads())},
                       {"writes", listed(op.getWrites())}};
  if (op.getWhen())
    command["when"] = index(op.getWhen());
  if (op.getDone())
    command["done"] = index(op.getDone());
  if (op.getCallback())
    command["callback"] = *op.getCallback();
  if (op.getProgram())
    command["program"] = op.getProgram()->str();
  if (auto attr = op->getAttrOfType<ArrayAttr>(plan::kShapesAttr)) {
    json::Array shapes;
    for (auto shape : attr.getAsRange<DenseI64ArrayAttr>())
      shapes.push_back(shapeOf(shape.asArrayRef()));
    command["shapes"] = std::move(shapes);
  }
  return command;
}

json::Object ManifestWriter::collective(plan::CollectiveOp op) {
  json::Array groups;
  auto members = llvm::to_vector(op.getGroups().getValues<int64_t>());
  int64_t size = op.getGroups().getShapedType().getDimSize(1);
  for (ArrayRef<int64_t> rest = members; !rest.empty();
       rest = rest.drop_front(size))
    groups.push_back(shapeOf(rest.take_front(size)));
  StringRef kind = plan::stringifyCollectiveKind(op.getKind());
  return json::Object{{"op", "collective"},
                      {"name", kind},
                      {"kind", kind},
                      {"join", plan::stringifyJoin(op.getJoin())},
                      {"loc", describeLocation(op.getLoc())},
                      {"src", index(op.getSource())},
                      {"dst", index(op.getDestination())},
                      {"groups", std::move(groups)}};
}

json::Object ManifestWriter::message(plan::MessageOp op) {
  int64_t memory = index(op.getMemory());
  return json::Object{{"op", "collective"},
                      {"name", op.getName()},
                      {"kind", "message"},
                      {"loc", describeLocation(op.getLoc())},
                      {"src", memory},
                      {"dst", memory},
                      {op.isSend() ? "to" : "from", op.getPeer()}};
}

json::Object ManifestWriter::loop(plan::LoopOp op) {
  json::Object command{{"op", "loop"},
                       {"name", op.getCallee().str()},
                       {"loc", describeLocation(op.getLoc())},
                       {"function", op.getCallee().str()},
                       {"carries", listed(op.getCarries())},
                       {"reads", listed(op.getReads())}};
  if (op.getArena())
    command["arena"] = index(op.getArena());
  if (op.getTrips())
    command["trips"] = *op.getTrips();
  if (op.getCondition())
    command["while"] = *op.getCondition();
  if (op.getSlices())
    command["slices"] = shapeOf(*op.getSlices());
  return command;
}

static json::Object partsOf(Attribute whole, Attribute parts) {
  json::Array dims;
  for (auto dim : cast<ArrayAttr>(parts).getAsRange<DenseI64ArrayAttr>())
    dims.push_back(shapeOf(dim.asArrayRef()));
  auto type = cast<RankedTensorType>(cast<TypeAttr>(whole).getValue());
  return json::Object{{"shape", shapeOf(type.getShape())},
                      {"parts", std::move(dims)}};
}

/// Writes the whole value that an argument or result is a shard of, if it is
/// one, and its share as a flat run of elements.
static void writeShards(json::Object &entry, DictionaryAttr attrs) {
  Attribute whole = attrs.get(kWholeTypeAttr);
  Attribute parts = attrs.get(kPartsAttr);
  if (whole && parts)
    entry["whole"] = partsOf(whole, parts);
  if (auto flat = attrs.getAs<DictionaryAttr>(kFlatAttr))
    entry["flat"] = partsOf(flat.get("whole"), flat.get("parts"));
}

/// Writes the type of an argument or result as the caller sees it.
static json::Object typeInfo(Attribute stored, Attribute attrs) {
  auto tensor = cast<RankedTensorType>(cast<TypeAttr>(stored).getValue());
  ArrayRef<int64_t> shape = tensor.getShape();
  Type element = tensor.getElementType();
  if (auto own = cast<DictionaryAttr>(attrs).getAs<TypeAttr>(kElementAttr)) {
    element = own.getValue();
    if (isa<ComplexType>(element))
      shape = shape.drop_back();
  }
  return json::Object{{"shape", shapeOf(shape)},
                      {"dtype", manifest::typeName(element)}};
}

static std::string nameOf(DictionaryAttr attrs, size_t number) {
  auto name = attrs.getAs<StringAttr>("scalify.name");
  return name ? name.str() : "arg" + std::to_string(number);
}

/// Writes how narrow data of an argument or result are stored.
static void writeStored(json::Object &entry, DictionaryAttr attrs) {
  auto stored = attrs.getAs<DictionaryAttr>("scalify.stored");
  if (!stored)
    return;
  json::Object found{
      {"dtype", entry["dtype"]},
      {"exponent", stored.getAs<IntegerAttr>("exponent").getInt()},
      {"root", stored.getAs<BoolAttr>("root").getValue()}};
  if (auto index = stored.getAs<IntegerAttr>("scale_index"))
    found["scale_index"] = index.getInt();
  entry["stored"] = std::move(found);
}

void ManifestWriter::writeArgs(json::Object &manifest) {
  json::Array args, results;
  auto list = [&](StringRef name) {
    return program->getAttrOfType<ArrayAttr>(name).getValue();
  };
  auto text = [](DictionaryAttr attrs, StringRef name, StringRef otherwise) {
    auto value = attrs.getAs<StringAttr>(name);
    return (value ? value.getValue() : otherwise).str();
  };
  std::map<int64_t, int64_t> aliasOf;
  for (auto [i, attr] : llvm::enumerate(list(plan::kArgsAttr))) {
    auto attrs = cast<DictionaryAttr>(attr);
    json::Object arg = typeInfo(list(plan::kArgTypesAttr)[i], attrs);
    arg["name"] = nameOf(attrs, i);
    arg["role"] = text(attrs, plan::kRoleKey, "input");
    auto scale = attrs.getAs<IntegerAttr>("scalify.scale");
    arg["scale_exp"] =
        scale ? json::Value(scale.getInt()) : json::Value(nullptr);
    if (auto moments = attrs.getAs<DenseF64ArrayAttr>("scalify.moments"))
      arg["moments"] = json::Array(moments.asArrayRef());
    auto alias = attrs.getAs<IntegerAttr>(kAliasAttr);
    if (auto initial = attrs.getAs<DenseI32ArrayAttr>("scalify.initial"))
      arg["initial_exp"] = json::Array(initial.asArrayRef());
    if (auto casts = attrs.getAs<ArrayAttr>("scalify.casts")) {
      json::Array names;
      for (auto name : casts.getAsRange<StringAttr>())
        names.push_back(name.getValue());
      arg["casts"] = std::move(names);
    }
    writeStored(arg, attrs);
    arg["alias_result"] =
        alias ? json::Value(alias.getInt()) : json::Value(nullptr);
    writeShards(arg, attrs);
    if (trial.spared.count(int64_t(i)))
      arg["spared"] = true;
    if (alias)
      aliasOf[alias.getInt()] = i;
    args.push_back(std::move(arg));
  }
  for (auto [i, attr] : llvm::enumerate(list(plan::kResultsAttr))) {
    json::Object result = typeInfo(list(plan::kResultTypesAttr)[i], attr);
    result["name"] = text(cast<DictionaryAttr>(attr), "jax.result_info",
                          "result[" + std::to_string(i) + "]");
    writeShards(result, cast<DictionaryAttr>(attr));
    auto alias = aliasOf.find(i);
    result["alias_arg"] = alias == aliasOf.end() ? json::Value(nullptr)
                                                 : json::Value(alias->second);
    results.push_back(std::move(result));
  }
  manifest["args"] = std::move(args);
  manifest["results"] = std::move(results);
}

json::Array ManifestWriter::write(json::Object &manifest) {
  auto event = [](StringRef op, int64_t event, int64_t stream) {
    return json::Object{{"op", op}, {"event", event}, {"stream", stream}};
  };
  for (Operation &op : program.getBody().front()) {
    size_t numBefore = commands.size();
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](plan::KernelOp o) { commands.push_back(kernel(o)); })
        .Case([&](plan::GemmOp o) { commands.push_back(gemm(o)); })
        .Case([&](plan::AttentionOp o) { commands.push_back(attention(o)); })
        .Case([&](plan::LapackOp o) { commands.push_back(lapack(o)); })
        .Case([&](plan::HostCallOp o) { commands.push_back(hostCall(o)); })
        .Case([&](plan::CollectiveOp o) { commands.push_back(collective(o)); })
        .Case([&](plan::MessageOp o) { commands.push_back(message(o)); })
        .Case([&](plan::LoopOp o) { commands.push_back(loop(o)); })
        .Case([&](plan::CopyOp o) {
          commands.push_back(
              json::Object{{"op", "copy"},
                           {"src", index(o.getSource())},
                           {"dst", index(o.getDestination())},
                           {"bytes", plan::bufferBytes(o.getSource())}});
        })
        .Case([&](plan::FillOp o) {
          commands.push_back(
              json::Object{{"op", "fill"},
                           {"dst", index(o.getDestination())},
                           {"bytes", plan::bufferBytes(o.getDestination())},
                           {"byte", o.getByte()}});
        })
        .Case([&](plan::RecordOp o) {
          commands.push_back(event("record", o.getEvent(), o.getStream()));
        })
        .Case([&](plan::WaitOp o) {
          commands.push_back(event("wait", o.getEvent(), o.getStream()));
        })
        .Default([&](Operation *o) { writeBuffer(*o); });
    if (commands.size() == numBefore)
      continue;
    json::Object &command = *commands.back().getAsObject();
    if (int64_t stream = plan::streamOf(&op))
      command["stream"] = stream;
    if (trial.updates.contains(&op))
      command["update"] = true;
    if (std::optional<plan::Tiling> tiling = plan::tilingOf(&op))
      command["tiles"] = json::Array{tiling->tiles, tiling->group};
    if (auto task = op.getAttrOfType<StringAttr>(plan::kTaskAttr))
      command["task"] = task.getValue();
  }
  manifest["arena_bytes"] = program.getArenaBytes().value_or(0);
  if (program.getTileBytes())
    manifest["tile_bytes"] = *program.getTileBytes();
  manifest["memory"] = plan::toJSON(plan::measureMemory(program));
  manifest["buffers"] = std::move(buffers);
  writeArgs(manifest);
  return std::move(commands);
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

/// Returns a stage's arguments and results of the whole step, and owners.
static json::Object pipelineOf(DictionaryAttr pipeline) {
  json::Object entry;
  for (StringRef name : {"stages", "virtual", "microbatches", "ranks", "stage",
                         "args", "arg_owners", "results", "result_owners"})
    entry[name.str()] = manifest::toJSON(pipeline.get(name));
  auto describe = [&](StringRef types, StringRef attrs) {
    json::Array all;
    for (auto [type, attr] :
         llvm::zip_equal(pipeline.getAs<ArrayAttr>(types),
                         pipeline.getAs<ArrayAttr>(attrs))) {
      json::Object info = typeInfo(type, attr);
      writeShards(info, cast<DictionaryAttr>(attr));
      all.push_back(std::move(info));
    }
    return all;
  };
  json::Array args = describe("arg_types", "arg_attrs");
  json::Array results = describe("result_types", "result_attrs");
  for (auto [i, attr] :
       llvm::enumerate(pipeline.getAs<ArrayAttr>("arg_attrs"))) {
    auto attrs = cast<DictionaryAttr>(attr);
    json::Object &arg = *args[i].getAsObject();
    arg["name"] = nameOf(attrs, i);
    writeStored(arg, attrs);
    if (auto alias = attrs.getAs<IntegerAttr>(kAliasAttr))
      writeStored(*results[alias.getInt()].getAsObject(), attrs);
  }
  entry["arg_types"] = std::move(args);
  entry["result_types"] = std::move(results);
  return entry;
}

FailureOr<PlanText> scalify::writeManifest(ModuleOp module,
                                           const TargetInfo &target,
                                           StringRef recipe) {
  auto program = module.lookupSymbol<plan::ProgramOp>("step");
  if (!program)
    return module.emitError("has no plan.program @step to emit");
  PlanText text;
  text.manifest["version"] = 5;
  manifest::writeTarget(target, text.manifest);
  text.manifest["recipe"] = recipe;
  text.manifest["mesh"] = manifest::meshOf(module);
  manifest::Counters counters(program);
  ManifestWriter step(program, text.constants, counters);
  step.markTrial();
  json::Object functions{
      {program.getSymName().str(), step.write(text.manifest)}};
  // Every other function has its own arguments and buffers.
  for (auto other : module.getOps<plan::ProgramOp>()) {
    if (other == program)
      continue;
    json::Object function;
    function["commands"] =
        ManifestWriter(other, text.constants, counters).write(function);
    functions[other.getSymName().str()] = std::move(function);
  }
  text.manifest["counters"] = counters.take();
  text.manifest["functions"] = std::move(functions);
  if (auto pipeline =
          module->getAttrOfType<DictionaryAttr>(plan::kPipelineAttr))
    text.manifest["pipeline"] = pipelineOf(pipeline);
  for (StringRef name : {"report", "remarks", "assumptions"}) {
    auto rows = module->getAttrOfType<ArrayAttr>(("scalify." + name).str());
    text.manifest[name.str()] =
        rows ? manifest::toJSON(rows) : json::Value(json::Array());
  }
  return text;
}
