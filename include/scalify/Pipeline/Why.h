//===- Why.h - The chain of rules behind one scale --------------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_WHY_H
#define SCALIFY_PIPELINE_WHY_H

#include "scalify/Pipeline/ScaleReport.h"

#include "llvm/Support/Error.h"

namespace scalify {

/// One line of a chain.
struct WhyLine {
  int64_t id;
  /// Steps from the value that was asked for.
  unsigned depth;
  /// Its sources stand where the value came first.
  bool isRepeated;
  /// Its sources are not shown: they are deeper than was asked for.
  bool isCut;
};

/// The row that a name means: a value ("%412"), an argument ("params['w']"), a
/// cast ("c12", "c12: x"), a row ("#17"), or a part of a location that only
/// one value has. The error lists near matches.
llvm::Expected<int64_t> findRow(const ScaleReport &report,
                                llvm::StringRef name);

/// The value and what it came from, down to `depth` steps (0: all the way),
/// each value's sources once.
std::vector<WhyLine> explainScale(const ScaleReport &report, int64_t id,
                                  unsigned depth);

/// The chain as an indented tree.
std::string toText(const ScaleReport &report, const std::vector<WhyLine> &why);

/// The chain's rows and the place of each in the tree.
llvm::json::Value toJSON(const ScaleReport &report,
                         const std::vector<WhyLine> &why);

} // namespace scalify

#endif // SCALIFY_PIPELINE_WHY_H
