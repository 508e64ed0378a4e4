//===- Diagnostics.h - Diagnostics as data ----------------------*- C++ -*-===//
//
// Tools print diagnostics and Python raises them. Both need them as data: the
// message, the op, and the line of the input text or of the user's program.
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
  /// The result of `describeLocation`; may be empty.
  std::string location;
  /// The line of the input text at the location, or empty.
  std::string source;
  std::vector<Note> notes;
};

/// "error", "warning", "remark" or "note".
llvm::StringRef stringifySeverity(mlir::DiagnosticSeverity severity);

/// Collects the diagnostics of a context during the collector's lifetime.
class DiagnosticCollector {
public:
  /// `text` is the input. Its lines are quoted for locations in file `name`.
  DiagnosticCollector(mlir::MLIRContext *context, llvm::StringRef name,
                      llvm::StringRef text, std::vector<DiagnosticRecord> &out);

private:
  void add(mlir::Diagnostic &diagnostic);
  std::string quoteLine(mlir::Location location) const;

  llvm::StringRef name;
  llvm::StringRef text;
  std::vector<DiagnosticRecord> &out;
  // Last, so that the members above are initialised before any diagnostic.
  mlir::ScopedDiagnosticHandler handler;
};

/// Formats the diagnostic: location, severity, message, quoted line, notes.
std::string formatDiagnostic(const DiagnosticRecord &diagnostic);

} // namespace scalify

#endif // SCALIFY_PIPELINE_DIAGNOSTICS_H
