#include "Profile.h"
#include "StepRunner.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <tuple>
#include <vector>

using namespace scalify::rt;

namespace {
struct Row {
  std::string op, name;
  double nanoseconds = 0, bytes = 0, flops = 0;
  double roof = 0; // least nanoseconds of the calls at the GPU's peaks
  uint64_t calls = 0;
};

__attribute__((format(printf, 1, 2))) std::string line(const char *format,
                                                       ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  return text;
}

std::vector<Row> gather(const scalify_rt_executable *executable) {
  std::map<std::pair<std::string, std::string>, Row> byName;
  int32_t count = scalify_rt_num_profile_entries(executable);
  for (int32_t i = 0; i < count; ++i) {
    scalify_rt_profile_entry entry;
    check(scalify_rt_profile(executable, i, &entry));
    if (entry.calls == 0)
      continue;
    Row &row = byName[{entry.op, entry.name}];
    row.op = entry.op;
    row.name = entry.name;
    row.calls += entry.calls;
    row.nanoseconds += double(entry.nanoseconds);
    row.bytes += double(entry.bytes) * double(entry.calls);
    row.flops += double(entry.flops) * double(entry.calls);
    row.roof += entry.least * double(entry.calls);
  }
  std::vector<Row> rows;
  rows.reserve(byName.size());
  for (auto &[key, row] : byName)
    rows.push_back(std::move(row));
  std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
    return a.nanoseconds > b.nanoseconds;
  });
  return rows;
}
} // namespace

std::string scalify::rt::profileTable(const scalify_rt_executable *executable) {
  std::vector<Row> rows = gather(executable);
  double total = 0, flops = 0, roof = 0;
  for (const Row &row : rows) {
    total += row.nanoseconds;
    flops += row.flops;
    roof += row.roof;
  }
  // The share of the time in which memory or arithmetic was the bound.
  const bool isKnown = roof > 0;
  auto roofCell = [&](double share) {
    return isKnown ? line(" %7.1f", 100 * share) : std::string();
  };
  std::string text =
      line("%10s %6s %8s %8s %9s%s  %-6s  %s\n", "ms", "%", "calls", "GB/s",
           "GFLOP/s", isKnown ? "  roof %" : "", "op", "name");
  double unit = total > 0 ? total : 1;
  for (const Row &row : rows) {
    double time = row.nanoseconds > 0 ? row.nanoseconds : 1;
    text += line("%10.3f %6.1f %8llu %8.2f %9.1f%s  %-6s  %s\n",
                 row.nanoseconds * 1e-6, 100 * row.nanoseconds / unit,
                 static_cast<unsigned long long>(row.calls), row.bytes / time,
                 row.flops / time, roofCell(row.roof / time).c_str(),
                 row.op.c_str(), row.name.substr(0, 200).c_str());
  }
  return text + line("%10.3f %6.1f %8s %8s %9.1f%s  total\n", total * 1e-6,
                     100.0, "", "", flops / unit,
                     roofCell(roof / unit).c_str());
}

std::string scalify::rt::healthTable(const scalify_rt_executable *executable) {
  std::vector<scalify_rt_counter> counters;
  for (int32_t i = 0; i < scalify_rt_num_counters(executable); ++i) {
    counters.emplace_back();
    check(scalify_rt_counter_info(executable, i, &counters.back()));
  }
  auto key = [](const scalify_rt_counter &c) {
    return std::make_tuple(~c.nans, ~c.saturated, ~c.flushed,
                           std::string(c.cast));
  };
  std::sort(counters.begin(), counters.end(),
            [&](const scalify_rt_counter &a, const scalify_rt_counter &b) {
              return key(a) < key(b);
            });
  std::string text =
      line("%12s %12s %12s %12s %12s %12s %6s  %-10s  %s\n", "NaN", "saturated",
           "flushed", "zero", "elements", "scale", "moved", "format", "cast");
  for (const scalify_rt_counter &c : counters)
    text += line("%12llu %12llu %12llu %12llu %12llu %12.3g %6.1f  %-10s  %s\n",
                 static_cast<unsigned long long>(c.nans),
                 static_cast<unsigned long long>(c.saturated),
                 static_cast<unsigned long long>(c.flushed),
                 static_cast<unsigned long long>(c.zeros),
                 static_cast<unsigned long long>(c.elements),
                 static_cast<double>(c.scale), static_cast<double>(c.moved),
                 c.format, c.cast);
  return text;
}
