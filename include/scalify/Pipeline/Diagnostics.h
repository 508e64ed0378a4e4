//===- Diagnostics.h - Diagnostics as data ----------------------*- C++ -*-===//
//
// Tools print diagnostics and Python raises them. Both want them as data: what
// went wrong, at which op, in which line of the text or of the user's program.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_PIPELINE_DIAGNOSTICS_H
#define SCALIFY_PIPELINE_DIAGNOSTICS_H

#include "scalify/Import/Locations.h"

#include "mlir/IR/Diagnostics.h"

#include <string>
#include <vector>

namespace scalify {

struct Note {
  std::string message;
  std::string location;
};

struct DiagnosticRecord {
  mlir::DiagnosticSeverity severity;
  std::string message;
  /// As `describeLocation` gives it; may be empty.
  std::string location;
  /// The line of the input text that the location points at, or empty.
  std::string source;
  std::vector<Note> notes;
};

/// "error", "warning", "remark" or "note".
llvm::StringRef stringifySeverity(mlir::DiagnosticSeverity severity);

/// Collects the diagnostics of a context for as long as it lives.
class DiagnosticCollector {
public:
  /// `text` is the input, whose lines are quoted for locations in `name`.
  DiagnosticCollector(mlir::MLIRContext *context, llvm::StringRef name,
                      llvm::StringRef text, std::vector<DiagnosticRecord> &out);

private:
  void add(mlir::Diagnostic &diagnostic);
  std::string quoteLine(mlir::Location location) const;

  llvm::StringRef name;
  llvm::StringRef text;
  std::vector<DiagnosticRecord> &out;
  // Last, so that no diagnostic comes before the members above are set.
  mlir::ScopedDiagnosticHandler handler;
};

/// The diagnostic as text: location, severity, message, quoted line, notes.
std::string formatDiagnostic(const DiagnosticRecord &diagnostic);

} // namespace scalify

#endif // SCALIFY_PIPELINE_DIAGNOSTICS_H
