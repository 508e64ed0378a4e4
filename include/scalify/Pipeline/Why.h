//===- Why.h - The chain of rules that led to one scale ---------*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_WHY_H
#define SCALIFY_PIPELINE_WHY_H

#include "scalify/Pipeline/ScaleReport.h"

#include "llvm/Support/Error.h"

namespace scalify {

/// One line of a chain.
struct WhyLine {
  int64_t id;
  /// The distance from the queried value.
  unsigned depth;
  /// The sources are shown at the value's first occurrence.
  bool isRepeated;
  /// The sources are not shown: they exceed the requested depth.
  bool isCut;
};

/// Returns the row that a name denotes: a value ("%412"), an argument
/// ("params['w']"), a cast ("c12", "c12: x"), a row ("#17"), or a part of a
/// location that only one value has. The error lists near matches.
llvm::Expected<int64_t> findRow(const ScaleReport &report,
                                llvm::StringRef name);

/// Returns the value and its sources, down to `depth` steps (0: no limit). The
/// sources of each value appear once.
std::vector<WhyLine> explainScale(const ScaleReport &report, int64_t id,
                                  unsigned depth);

/// Returns the chain as an indented tree.
std::string toText(const ScaleReport &report, const std::vector<WhyLine> &why);

/// Returns the chain's rows with the position of each in the tree.
llvm::json::Value toJSON(const ScaleReport &report,
                         const std::vector<WhyLine> &why);

} // namespace scalify

#endif // SCALIFY_PIPELINE_WHY_H
