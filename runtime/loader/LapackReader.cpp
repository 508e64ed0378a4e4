#include "loader/LapackReader.h"
#include "loader/CommandReader.h"

using namespace scalify::rt;

namespace {
LapackShape readShape(const JsonNode &node) {
  LapackShape shape;
  std::string name = node["routine"].text();
  std::optional<LapackRoutine> routine = parseLapackRoutine(name);
  if (!routine)
    node["routine"].fail("is '" + name + "', which this runtime does not call");
  shape.routine = *routine;
  shape.letters = node["letters"].text();
  shape.isComplex = node.has("complex") && node["complex"].boolean();
  int64_t *sizes[] = {&shape.batch, &shape.m, &shape.n, &shape.k};
  JsonNode list = node["sizes"];
  if (list.size() != std::size(sizes))
    list.fail("must hold batch, m, n and k");
  for (size_t i = 0; i < list.size(); ++i)
    *sizes[i] = list.at(i).atLeast(0);
  return shape;
}

/// Reads the buffer of one operand, which has the matrices of the batch.
void readOperand(const JsonNode &node, const LapackOperand &operand,
                 const Interface &interface, Command &command) {
  int32_t index = bufferIndex(node, interface);
  const TensorType &type = interface.buffers[index].type;
  DType floats = command.lapack.isDouble ? DType::F64 : DType::F32;
  DType wanted = operand.isInteger ? DType::I32 : floats;
  int64_t elements = command.lapack.shape.batch * operand.elements();
  if (type.dtype != wanted || type.elements != elements)
    node.fail("is buffer " + std::to_string(index) + " of type " +
              toString(type) + ", not " +
              std::to_string(command.lapack.shape.batch) + " times " +
              std::to_string(operand.rows) + " x " +
              std::to_string(operand.cols) + " of " + name(wanted));
  command.buffers.push_back(index);
  addBytes(command, interface.buffers[index]);
}

void readOperands(const JsonNode &list, bool areWritten,
                  const Interface &interface, Command &command) {
  const LapackSignature &signature = command.lapack.signature;
  const auto &operands = areWritten ? signature.writes : signature.reads;
  size_t count = 0, next = 0;
  for (const LapackOperand &operand : operands)
    count += operand.parts();
  if (list.size() != count)
    list.fail("must name " + std::to_string(count) + " buffers");
  for (const LapackOperand &operand : operands)
    for (int64_t part = 0; part < operand.parts(); ++part) {
      JsonNode node = list.at(next++);
      readOperand(node, operand, interface, command);
      if (areWritten)
        requireWritable(node, command.buffers.back(), interface);
    }
}

void readWork(const JsonNode &node, const Interface &interface,
              Command &command) {
  LapackCall &call = command.lapack;
  int32_t index = bufferIndex(node, interface);
  requireWritable(node, index, interface);
  const TensorType &type = interface.buffers[index].type;
  if (type.dtype != (call.isDouble ? DType::F64 : DType::F32))
    node.fail("is buffer " + std::to_string(index) + " of type " +
              toString(type) + ", not of the matrices' type");
  call.tasks = countLapackTasks(call.shape, call.signature, type.elements);
  if (call.tasks == 0 && call.shape.batch > 0)
    node.fail("is buffer " + std::to_string(index) + " of type " +
              toString(type) + ", and '" + command.name + "' needs " +
              std::to_string(call.signature.floats()) + " elements");
  command.buffers.push_back(index);
}
} // namespace

void scalify::rt::readLapack(const JsonNode &node, const Interface &interface,
                             Command &command) {
  LapackCall &call = command.lapack;
  call.shape = readShape(node);
  std::string problem = makeLapackSignature(call.shape, call.signature);
  if (!problem.empty())
    node.fail(problem);
  if (node["reads"].size() == 0)
    node["reads"].fail("is empty");
  int32_t first = bufferIndex(node["reads"].at(0), interface);
  call.isDouble = interface.buffers[first].type.dtype == DType::F64;
  readOperands(node["reads"], false, interface, command);
  readOperands(node["writes"], true, interface, command);
  readWork(node["work"], interface, command);
}
