// The table at the end of a run: a row a scenario and adapter, a column a verdict, the symptom of
// what is known to be broken beside it. Every case is in exactly one cell, so the totals add up to
// the number of cases, and the table says so.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "harness/report/printable_text.h"
#include "harness/report/report.h"
#include "harness/report/terminal_style.h"

namespace resumecheck {
namespace {

constexpr std::size_t widest = 110;
constexpr std::size_t name_width = 42;
constexpr std::size_t most_remarks = 4;  // a row: a scenario of many variants has many reasons
constexpr std::size_t seconds_width = 9;
constexpr std::array<Verdict, 8> all_verdicts = {Verdict::pass,  Verdict::fail,   Verdict::vacuous,
                                                 Verdict::xfail, Verdict::xpass,  Verdict::skip,
                                                 Verdict::error, Verdict::timeout};

struct Row {
  std::string name;
  std::map<Verdict, int> counts;
  double seconds = 0;
  std::vector<std::pair<Verdict, std::string>> remarks;  // each told once
};

struct Group {
  std::string scenario;
  std::vector<Row> rows;
};

std::string runner(const CaseResult& result) {
  std::string name = result.adapter;
  if (result.save_environment) {
    name += "@" + result.save_environment->name;
    if (result.load_environment && result.load_environment->name != result.save_environment->name) {
      name += ">" + result.load_environment->name;
    }
  }
  if (result.device != "cpu") name += " " + result.device;
  return printable(name);
}

template <typename T>
T& entry(std::vector<T>& list, const std::string& name, std::string T::*member) {
  for (T& each : list) {
    if (each.*member == name) return each;
  }
  list.emplace_back();
  list.back().*member = name;
  return list.back();
}

std::string remark(const CaseResult& result) {
  if (result.verdict == Verdict::xfail) {
    return fmt::format("{}: {}: {}", result.known_broken, result.failed_at, result.symptom);
  }
  return result.verdict == Verdict::skip ? result.reason : std::string();
}

std::vector<Group> grouped(const std::vector<CaseResult>& results) {
  std::vector<Group> groups;
  for (const CaseResult& result : results) {
    Group& group = entry(groups, printable(result.scenario), &Group::scenario);
    Row& row = entry(group.rows, runner(result), &Row::name);
    ++row.counts[result.verdict];
    row.seconds += result.seconds;
    const std::pair told{result.verdict, printable(remark(result))};
    const bool known = std::find(row.remarks.begin(), row.remarks.end(), told) != row.remarks.end();
    if (!told.second.empty() && !known) row.remarks.push_back(told);
  }
  return groups;
}

class Table {
 public:
  Table(const std::vector<CaseResult>& results, bool colour) : colour_(colour) {
    for (const CaseResult& result : results) ++totals_[result.verdict];
    for (const Verdict verdict : all_verdicts) {
      const bool always = verdict == Verdict::pass || verdict == Verdict::fail;
      if (always || totals_.count(verdict) > 0) columns_.push_back(verdict);
    }
  }

  void add_head() {
    text_ += std::string(name_width, ' ');
    for (const Verdict verdict : columns_) text_ += cell(name_of(verdict), verdict);
    text_ += fmt::format("{:>{}}\n", "seconds", seconds_width);
  }

  void add_group(const Group& group) {
    text_ += cut_to(group.scenario, widest) + "\n";
    for (const Row& row : group.rows) {
      add_row("  " + row.name, row.counts, row.seconds);
      for (std::size_t i = 0; i < std::min(row.remarks.size(), most_remarks); ++i) {
        const auto& [verdict, remark] = row.remarks[i];
        add_remark(fmt::format("{}: {}", name_of(verdict), remark));
      }
      if (row.remarks.size() > most_remarks) {
        add_remark(fmt::format("and {} more reasons", row.remarks.size() - most_remarks));
      }
    }
  }

  void add_totals(const std::vector<CaseResult>& results) {
    double seconds = 0;
    for (const CaseResult& result : results) seconds += result.seconds;
    add_row("total", totals_, seconds);
    std::string sum;
    for (const auto& [verdict, count] : totals_) {
      sum += fmt::format("{}{} {}", sum.empty() ? "" : " + ", count, name_of(verdict));
    }
    text_ += fmt::format("{} case{}{}{}\n", results.size(), results.size() == 1 ? "" : "s",
                         sum.empty() ? "" : " = ", sum);
  }

  void add_by_name(const std::vector<CaseResult>& results) {
    for (const Verdict verdict : all_verdicts) {
      const bool unfinished = verdict == Verdict::error || verdict == Verdict::timeout;
      if (!unexpected(verdict) && !unfinished) continue;
      for (const CaseResult& result : results) {
        if (result.verdict != verdict) continue;
        text_ += fmt::format("{} {}\n",
                             coloured(verdict, fmt::format("{:<7}", name_of(verdict)), colour_),
                             printable(result.name));
      }
    }
  }

  const std::string& text() const { return text_; }

 private:
  static std::size_t width_of(Verdict verdict) { return name_of(verdict).size() + 2; }

  static std::string cell(std::string_view text, Verdict verdict) {
    return fmt::format("{:>{}}", text, width_of(verdict));
  }

  void add_remark(const std::string& remark) {
    text_ += dimmed(cut_to(fmt::format("    {}", remark), widest), colour_) + "\n";
  }

  void add_row(const std::string& name, const std::map<Verdict, int>& counts, double seconds) {
    const std::string shown = cut_to(name, name_width);
    text_ += shown + std::string(name_width - columns(shown), ' ');
    for (const Verdict verdict : columns_) {
      const auto count = counts.find(verdict);
      if (count == counts.end()) {
        text_ += cell("", verdict);
      } else {
        text_ += coloured(verdict, cell(std::to_string(count->second), verdict), colour_);
      }
    }
    text_ += fmt::format("{:>{}.1f}\n", seconds, seconds_width);
  }

  bool colour_;
  std::map<Verdict, int> totals_;
  std::vector<Verdict> columns_;
  std::string text_;
};

}  // namespace

std::string summary_table(const std::vector<CaseResult>& results, bool colour) {
  Table table(results, colour);
  table.add_head();
  for (const Group& group : grouped(results)) table.add_group(group);
  table.add_totals(results);
  table.add_by_name(results);
  return table.text();
}

}  // namespace resumecheck
