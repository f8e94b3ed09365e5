// A case on the console: one line where there is nothing to explain, and a block that an engineer
// can act on where there is. Everything shown comes from the result alone, so that the same block
// can be printed again from results.jsonl.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/report/printable_text.h"
#include "harness/report/report.h"
#include "harness/report/terminal_style.h"

namespace resumecheck {
namespace {

std::string joined(const std::vector<std::string>& texts, std::string_view separator) {
  std::string all;
  for (const std::string& text : texts) {
    if (!all.empty()) all += separator;
    all += printable(text);
  }
  return all;
}

// "after load, before step 4"
std::string when(const CaseResult& result) {
  const std::string& at = result.failed_at;
  if (at != "after_load") return printable(at);
  if (result.save_after <= 0) return "after load";
  return fmt::format("after load, before step {}", result.save_after + 1);
}

bool is_scale(const Difference& d) { return d.key.part.ends_with(".scale"); }

// "3 of 24 blocks differ; first is block 17 (elements 4352..4607)". The last block may be short,
// which only a tensor with an element per parameter element can tell.
std::string how_much(const Difference& d) {
  if (d.blocks > 0 && d.block > 0 && d.first_block >= 0) {
    const std::int64_t begin = d.first_block * d.block;
    std::int64_t end = begin + d.block;
    if (!is_scale(d)) end = std::min(end, d.elements);
    return fmt::format("{} of {} block{} differ{}; first is block {} (elements {}..{})",
                       d.differing_blocks, d.blocks, d.blocks == 1 ? "" : "s",
                       d.differing_blocks == 1 ? "s" : "", d.first_block, begin, end - 1);
  }
  if (d.elements == 1) return "differs";
  return fmt::format("{} of {} elements differ{}; first is element {}", d.differing, d.elements,
                     d.differing == 1 ? "s" : "", d.first_index);
}

std::string first_line(const Difference& d) {
  const std::string what = printable(to_text(d.key));
  switch (d.kind) {
    case Difference::Kind::missing:
      return what + " is missing";
    case Difference::Kind::extra:
      return what + " is there and should not be";
    case Difference::Kind::dtype:
      return what + " has another dtype";
    case Difference::Kind::shape:
      return what + " has another shape";
    case Difference::Kind::block:
      return what + " has another block size";
    case Difference::Kind::storage_width:
      return what + " has another storage width";
    case Difference::Kind::value:
      return "value " + printable(d.key.name) + " differs";
    case Difference::Kind::bytes:
      break;
  }
  std::string line = what + ": " + how_much(d);
  if (d.largest_ulp > 0) line += fmt::format("; at most {} ulp apart", d.largest_ulp);
  return line;
}

void add_want_and_got(const CaseResult& result, std::string& block) {
  const Difference& d = *result.first_difference;
  const std::string want = printable(d.want);
  const std::string got = printable(d.got);
  const std::size_t width = std::max(columns(want), columns(got));
  const auto add = [&](std::string_view word, const std::string& text, std::size_t holder) {
    if (text.empty()) return;
    std::string line = fmt::format("    {:<4} {}", word, text);
    if (holder < result.holders.size() && !result.holders[holder].empty()) {
      line += std::string(width - columns(text) + 3, ' ') + printable(result.holders[holder]);
    }
    block += line + "\n";
  };
  add("want", want, 0);
  add("got", got, 1);
}

void add_fits(const Diagnosis& diagnosis, std::string& block) {
  std::vector<std::string> fits;
  for (const Fit& fit : diagnosis.fits) {
    std::string text = fmt::format("{} ({} of {})", printable(fit.name), fit.fits, fit.of);
    if (!fit.detail.empty()) text += ": " + printable(fit.detail);
    fits.push_back(text);
  }
  std::string line;
  if (!fits.empty()) line = "fits: " + joined(fits, ", ");
  if (!diagnosis.does_not_fit.empty()) {
    if (!line.empty()) line += ".   ";
    line += "does not fit: " + joined(diagnosis.does_not_fit, ", ");
  }
  if (!line.empty()) block += "  " + line + "\n";
}

// Parts of both moments are told together, by the last word of their names.
std::string short_part(const std::string& part) {
  const std::string fp8 = "fp8.";  // of both directions: "fp8.scale.forward" is "fp8.scale"
  if (part.starts_with(fp8)) return part.substr(0, part.find('.', fp8.size()));
  const std::size_t dot = part.rfind('.');
  return dot == part.npos ? part : part.substr(dot + 1);
}

// What people look for first stands first.
std::size_t place_of(const std::string& part) {
  static constexpr std::array<std::string_view, 7> order = {"param",  "codes", "scale", "codebook",
                                                            "values", "step",  "lr"};
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), part) - order.begin());
}

void add_tallies(const CaseResult& result, std::string& block) {
  if (!result.first_difference) return;
  std::vector<std::pair<std::string, PartTally>> groups;
  for (const auto& [part, tally] : result.parts) {
    const std::string name = short_part(part);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& each) { return each.first == name; });
    if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
    group->second.same += tally.same;
    group->second.total += tally.total;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const auto& left, const auto& right) {
    return place_of(left.first) < place_of(right.first);
  });
  std::vector<std::string> same, different;
  for (const auto& [name, tally] : groups) {
    const bool of_the_first = name == short_part(result.first_difference->key.part);
    const std::int64_t others = tally.total - tally.same - (of_the_first ? 1 : 0);
    if (tally.same == tally.total)
      same.push_back(fmt::format("{} {}/{}", name, tally.same, tally.total));
    if (others > 0) different.push_back(fmt::format("{} {} of {}", name, others, tally.total));
  }
  if (!different.empty()) block += "  differ too: " + joined(different, ", ") + "\n";
  if (!same.empty()) block += "  same everywhere else: " + joined(same, ", ") + "\n";
}

void add_line(std::string_view label, const std::string& text, std::string& block) {
  if (!text.empty()) block += fmt::format("  {}{}\n", label, printable(text));
}

std::string headline(const CaseResult& result, bool colour) {
  std::string line = coloured(result.verdict, std::string(name_of(result.verdict)), colour) + "  " +
                     printable(result.name);
  if (!result.failed_at.empty()) line += "   " + when(result);
  return line + "\n";
}

}  // namespace

std::string console_line(const CaseResult& result, bool colour) {
  const std::string word = fmt::format("{:<7}", name_of(result.verdict));
  std::string line = fmt::format("{} {}  {:.1f} s", coloured(result.verdict, word, colour),
                                 printable(result.name), result.seconds);
  std::string why;
  if (!result.known_broken.empty()) why = result.known_broken;
  if (!result.failed_at.empty()) why += (why.empty() ? "" : ": ") + result.failed_at;
  if (!result.symptom.empty() && !result.first_difference) {
    why += (why.empty() ? "" : ": ") + result.symptom;
  }
  if (!result.reason.empty()) why += (why.empty() ? "" : ": ") + result.reason;
  if (!why.empty()) line += "  " + dimmed(cut_to(printable(why), 200), colour);
  return line;
}

std::string failure_block(const CaseResult& result, bool colour) {
  if (result.verdict == Verdict::pass || result.verdict == Verdict::skip) {
    return console_line(result, colour) + "\n";
  }
  std::string block = headline(result, colour);
  if (result.first_difference) {
    block += "  " + first_line(*result.first_difference) + "\n";
    add_want_and_got(result, block);
  } else {
    add_line("", result.symptom, block);
  }
  add_line("", result.reason, block);
  if (result.verdict == Verdict::xpass) {
    block += "  known to be broken and passes now: remove its [[known_broken]] mark\n";
  }
  add_line("known: ", result.known_broken, block);
  add_fits(result.diagnosis, block);
  add_tallies(result, block);
  for (const std::string& note : result.notes) add_line("note: ", note, block);
  if (!result.stand_ins.empty()) block += "  stand-ins: " + joined(result.stand_ins, ", ") + "\n";
  add_line("again: ", result.again, block);
  std::string state = result.want_file;
  if (!result.got_file.empty()) state += (state.empty() ? "" : "  ") + result.got_file;
  add_line("state: ", state.empty() ? result.artifacts : state, block);
  return block;
}

}  // namespace resumecheck
