//===- Diagnostics.cpp - Diagnostics as data ------------------------------===//

#include "scalify/Pipeline/Diagnostics.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace scalify;

/// Longer lines, such as constants, are cut.
static constexpr size_t kLongestQuote = 160;

StringRef scalify::stringifySeverity(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Remark:
    return "remark";
  case DiagnosticSeverity::Note:
    return "note";
  }
  return "error";
}

DiagnosticCollector::DiagnosticCollector(MLIRContext *context, StringRef name,
                                         StringRef text,
                                         std::vector<DiagnosticRecord> &out)
    : name(name), text(text), out(out),
      handler(context, [this](mlir::Diagnostic &diagnostic) {
        add(diagnostic);
        return success();
      }) {}

std::string DiagnosticCollector::quoteLine(Location location) const {
  FileLineColLoc file = getFileLocation(location);
  if (!file || file.getFilename().getValue() != name || file.getLine() == 0)
    return {};
  StringRef rest = text;
  for (unsigned line = 1; line < file.getLine(); ++line) {
    size_t end = rest.find('\n');
    if (end == StringRef::npos)
      return {};
    rest = rest.substr(end + 1);
  }
  StringRef line = rest.take_until([](char c) { return c == '\n'; }).trim();
  if (!llvm::all_of(line, llvm::isPrint))
    return {};
  if (line.size() <= kLongestQuote)
    return line.str();
  return line.take_front(kLongestQuote).str() + "...";
}

/// Replaces MLIR's advice on an mlir-opt flag that users do not have.
static std::string getMessage(mlir::Diagnostic &diagnostic) {
  std::string message = diagnostic.str();
  if (StringRef(message).starts_with(
          "operation being parsed with an unregistered dialect"))
    return "the op is of a dialect that Scalify does not know";
  return message;
}

void DiagnosticCollector::add(mlir::Diagnostic &diagnostic) {
  DiagnosticRecord entry;
  entry.severity = diagnostic.getSeverity();
  entry.message = getMessage(diagnostic);
  entry.location = describeLocation(diagnostic.getLocation());
  entry.source = quoteLine(diagnostic.getLocation());
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    entry.notes.push_back({note.str(), describeLocation(note.getLocation())});
  out.push_back(std::move(entry));
}

std::string scalify::formatDiagnostic(const DiagnosticRecord &diagnostic) {
  std::string text;
  if (!diagnostic.location.empty())
    text = diagnostic.location + ": ";
  text += stringifySeverity(diagnostic.severity).str() + ": " +
          diagnostic.message + "\n";
  if (!diagnostic.source.empty())
    text += "  | " + diagnostic.source + "\n";
  for (const Note &note : diagnostic.notes) {
    text += note.location.empty() ? "  " : "  " + note.location + ": ";
    text += "note: " + note.message + "\n";
  }
  return text;
}
