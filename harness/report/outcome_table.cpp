#include "harness/report/outcome_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/report/printable_text.h"
#include "harness/report/terminal_style.h"
#include "harness/scenario/names.h"

namespace resumecheck {
namespace {

constexpr std::size_t widest = 100;
constexpr std::size_t label_width = 14;  // of a line of a column's head
constexpr std::size_t gap = 2;
constexpr std::size_t least_sources = 5, most_meshes = 22;  // of a grid

constexpr const char* legend =
    ". holds                  S the save fails         x silently different   - skipped\n"
    "F the run itself fails   L the load fails         ~ vacuous              ! error, timeout\n"
    "                         R the first steps after the load fail           * not as expected\n";

struct Letter {
  char letter = ' ';
  Verdict verdict = Verdict::pass;
};

using Lines = std::vector<std::string>;

struct Column {
  Lines head;
  std::size_t width = 0;
};

struct Group {
  std::string scenario;
  std::vector<std::string> variants, columns, meshes;  // as they come; meshes: pairs
  std::vector<std::string> sources, each_mesh;         // that save; of all pairs
  std::map<std::string, std::map<std::string, std::map<std::string, Letter>>>
      letters;  // variant, column, mesh pair
};

std::string column_of(const CaseResult& result) {
  std::string name = result.adapter;
  if (result.save_environment) {
    name += fmt::format("@{}", result.save_environment->name);
    if (result.load_environment && result.load_environment->name != result.save_environment->name) {
      name += fmt::format(">{}", result.load_environment->name);
    }
  }
  if (result.device != "cpu") name += fmt::format(" {}", result.device);
  return printable(name);
}

std::string pair_of(const std::string& from, const std::string& onto) {
  return fmt::format("{}->{}", from, onto);
}

std::vector<Group> grouped(const std::vector<CaseResult>& results) {
  std::vector<Group> groups;
  for (const CaseResult& result : results) {
    const std::string scenario = printable(result.scenario);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& known) { return known.scenario == scenario; });
    if (group == groups.end()) {
      groups.emplace_back();
      group = std::prev(groups.end());
      group->scenario = scenario;
    }
    const std::string variant = printable(result.variant);
    const std::string column = column_of(result);
    const std::string from = printable(result.from), onto = printable(result.onto);
    const std::string meshes = pair_of(from, onto);
    add_unique(group->variants, variant);
    add_unique(group->columns, column);
    add_unique(group->meshes, meshes);
    add_unique(group->sources, from);
    for (const std::string& mesh : {from, onto}) add_unique(group->each_mesh, mesh);
    group->letters[variant][column][meshes] = {outcome_letter(result), result.verdict};
  }
  return groups;
}

// Broken where a name has a joint: "torch-2.8>" over "torch-2.15".
Lines head_lines(const std::string& name) {
  Lines lines = {""};
  bool ends = false;  // an environment or an adapter ends its line
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find_first_of(">@- ", begin), name.size() - 1) + 1;
    const std::string piece = name.substr(begin, end - begin);
    if (!lines.back().empty() && (ends || lines.back().size() + piece.size() > label_width)) {
      lines.emplace_back();
    }
    lines.back() += piece;
    ends = piece.back() == '>' || piece.back() == '@';
    begin = end;
  }
  for (std::string& line : lines) line = cut_to(line, label_width);
  return lines;
}

bool is_unexpected(const Letter& letter) {
  return letter.letter != ' ' && unexpected(letter.verdict);
}

std::vector<Letter> cell_of(const Group& group, const std::string& variant,
                            const std::string& column) {
  std::vector<Letter> cell;
  const auto& of_variant = group.letters.at(variant);
  const auto found = of_variant.find(column);
  for (const std::string& meshes : group.meshes) {
    const bool there = found != of_variant.end() && found->second.count(meshes) > 0;
    cell.push_back(there ? found->second.at(meshes) : Letter{});
  }
  return cell;
}

std::size_t width_of(const std::vector<Letter>& cell) {
  std::size_t width = 0;
  for (const Letter& letter : cell) width += is_unexpected(letter) ? 2 : 1;
  return width;
}

std::string text_of(const std::vector<Letter>& cell, std::size_t width, bool colour) {
  std::string text;
  for (const Letter& letter : cell) {
    const std::string plain(1, letter.letter);
    text +=
        is_unexpected(letter) ? coloured(letter.verdict, fmt::format("{}*", plain), colour) : plain;
  }
  return text + std::string(width - std::min(width, width_of(cell)), ' ');
}

Column column_for(const Group& group, const std::string& name) {
  Column column;
  column.head = head_lines(name);
  for (const std::string& line : column.head) column.width = std::max(column.width, columns(line));
  for (const std::string& variant : group.variants) {
    column.width = std::max(column.width, width_of(cell_of(group, variant, name)));
  }
  return column;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// Some columns of a group, beside each other.
class Band {
 public:
  Band(const Group& group, std::size_t name_width, bool colour)
      : group_(group), name_width_(name_width), width_(name_width), colour_(colour) {}

  // False where it does not fit any more; the first one always does.
  bool add(const std::string& name) {
    const Column column = column_for(group_, name);
    if (!columns_.empty() && width_ + gap + column.width > widest) return false;
    columns_.emplace_back(name, column);
    width_ += gap + column.width;
    return true;
  }

  std::string text() const {
    std::string text = head();
    for (const std::string& variant : group_.variants) {
      std::string line =
          fmt::format("  {}", cut_to(variant.empty() ? "-" : variant, name_width_ - 2));
      line += std::string(name_width_ - columns(line), ' ');
      for (const auto& [name, column] : columns_) {
        line +=
            std::string(gap, ' ') + text_of(cell_of(group_, variant, name), column.width, colour_);
      }
      text += without_trailing_blanks(line);
    }
    return text;
  }

 private:
  std::string head() const {
    std::size_t height = 0;
    for (const auto& [name, column] : columns_) height = std::max(height, column.head.size());
    std::string text;
    for (std::size_t row = 0; row < height; ++row) {
      std::string line(name_width_, ' ');
      for (const auto& [name, column] : columns_) {
        const std::size_t skipped = height - column.head.size();
        const std::string part = row < skipped ? "" : column.head[row - skipped];
        line += std::string(gap, ' ') + part + std::string(column.width - columns(part), ' ');
      }
      text += without_trailing_blanks(line);
    }
    return text;
  }

  const Group& group_;
  std::size_t name_width_, width_;
  bool colour_;
  std::vector<std::pair<std::string, Column>> columns_;
};

std::string mesh_lines(const Group& group) {
  std::string text, line = "  meshes:";
  for (const std::string& meshes : group.meshes) {
    if (line.size() + 1 + meshes.size() > widest) {
      text += line + "\n";
      line = "         ";
    }
    line += fmt::format(" {}", meshes);
  }
  return text + line + "\n";
}

// More pairs than a row of letters can be read by.
bool is_grid(const Group& group) {
  return group.sources.size() >= least_sources && group.each_mesh.size() <= most_meshes;
}

// A row for each mesh that saves, a column for each that loads; the columns go by the rows'
// numbers.
std::string grid_of(const Group& group, const std::string& variant, const std::string& column,
                    bool colour) {
  std::size_t name_width = 4;
  for (const std::string& mesh : group.each_mesh) name_width = std::max(name_width, columns(mesh));
  name_width = std::min(name_width, widest - 14 - 3 * most_meshes);
  std::string text = without_trailing_blanks(
      cut_to(fmt::format("  {}{}{}", column, variant.empty() ? "" : ", ", variant), widest));
  std::string head = fmt::format("     {:<{}}  onto", "from", name_width);
  for (std::size_t i = 1; i <= group.each_mesh.size(); ++i) head += fmt::format(" {:>2}", i);
  text += head + "\n";
  const auto& letters = group.letters.at(variant).at(column);
  for (std::size_t i = 0; i < group.each_mesh.size(); ++i) {
    const std::string& from = group.each_mesh[i];
    if (!contains(group.sources, from)) {
      text += fmt::format("  {:>2} {}\n", i + 1, cut_to(from, name_width));
      continue;
    }
    const std::string name = cut_to(from, name_width);
    bool marked = false;  // the mark of the cell before stands where this one's blank would
    std::string line = fmt::format("  {:>2} {}{}      ", i + 1, name,
                                   std::string(name_width - columns(name), ' '));
    for (const std::string& onto : group.each_mesh) {
      const auto found = letters.find(pair_of(from, onto));
      const Letter letter = found == letters.end() ? Letter{} : found->second;
      line += std::string(marked ? 1 : 2, ' ') + text_of({letter}, 1, colour);
      marked = is_unexpected(letter);
    }
    text += without_trailing_blanks(line);
  }
  return text;
}

std::string grids_of(const Group& group, bool colour) {
  std::string text;
  for (const std::string& variant : group.variants) {
    for (const std::string& column : group.columns) {
      if (group.letters.at(variant).count(column) == 0) continue;
      text += grid_of(group, variant, column, colour);
    }
  }
  return text;
}

std::string text_of(const Group& group, bool colour) {
  if (is_grid(group)) return cut_to(group.scenario, widest) + "\n" + grids_of(group, colour);
  std::size_t name_width = 3, column_width = 0;
  for (const std::string& variant : group.variants) {
    name_width = std::max(name_width, 2 + columns(variant));
  }
  for (const std::string& column : group.columns) {
    column_width = std::max(column_width, column_for(group, column).width);
  }
  name_width = std::min(name_width, widest - gap - std::min(column_width, widest / 2));
  std::string text = cut_to(group.scenario, widest) + "\n" + mesh_lines(group);
  std::vector<Band> bands;
  for (const std::string& column : group.columns) {
    if (!bands.empty() && bands.back().add(column)) continue;
    bands.emplace_back(group, name_width, colour);
    bands.back().add(column);
  }
  for (const Band& band : bands) text += band.text();
  return text;
}

bool begins(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

// Where a run fails, and whether it said so: a difference that a comparison found was silent.
char failure_letter(const CaseResult& result) {
  const std::string& at = result.failed_at;
  const bool accepted = begins(result.symptom, "was not refused: it loaded");
  const bool changed = begins(result.symptom, "the resume changed");
  if (result.first_difference || accepted || changed) return 'x';
  if (begins(at, "save_run")) return 'F';
  if (at == "save") return 'S';
  if (at == "load") return 'L';
  return begins(at, "step ") ? 'R' : 'x';  // after_load, golden
}

}  // namespace

char outcome_letter(const CaseResult& result) {
  switch (result.verdict) {
    case Verdict::pass:
    case Verdict::xpass:
      return '.';
    case Verdict::vacuous:
      return '~';
    case Verdict::skip:
      return '-';
    case Verdict::error:
    case Verdict::timeout:
      return '!';
    case Verdict::fail:
    case Verdict::xfail:
      break;
  }
  return failure_letter(result);
}

std::string outcome_table(const std::vector<CaseResult>& results,
                          const OutcomeTableOptions& options) {
  std::string text;
  for (const Group& group : grouped(results)) {
    const bool has_variants = group.variants.size() > 1 || !group.variants.front().empty();
    if (options.only_variants && !has_variants && !is_grid(group)) continue;
    text += fmt::format("\n{}", text_of(group, options.colour));
  }
  return text.empty() ? text : legend + text;
}

}  // namespace resumecheck
