#include "harness/adapters/reference/detection_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "harness/adapters/reference/defect.h"
#include "harness/adapters/reference/native_case.h"
#include "harness/adapters/reference/reference.h"
#include "harness/state/digest.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;
using Outcome = DetectionCell::Outcome;

// The same case, with nothing wrong on purpose but the one defect ("" for none).
Case with_only(const Case& c, const std::string& defect) {
  Scenario scenario = *c.scenario;
  scenario.faults.clear();
  scenario.known_broken.clear();
  if (!defect.empty()) scenario.faults.push_back({defect, std::nullopt, ""});
  Case changed = c;
  changed.scenario = std::make_shared<const Scenario>(std::move(scenario));
  return changed;
}

struct Run {
  CaseResult result;
  std::string left;  // digest of every file that the resumed run left
};

std::string digest_of_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".safetensors") continue;
    const RankState state = read_rank_state(entry.path());
    files[fs::relative(entry.path(), folder).string()] = digest(assemble({state}).assembled.state);
  }
  std::string text;
  for (const auto& [name, content] : files) text += name + " " + content + "\n";
  return digest(text);
}

// One mesh pair under every mistake. Only those that are made while saving need a save run of their
// own; the others resume from the one that nothing is wrong with.
class Pair {
 public:
  Pair(const Case& c, const fs::path& root, const fs::path& folder)
      : case_(c), root_(root), folder_(folder), right_(save(with_only(c, ""))) {}
  ~Pair() { remove(folder_); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  Run run(const std::string& defect) const {
    const Case c = with_only(case_, defect);
    const bool saves_wrongly = !defect.empty() && find_defect(defect)->while_saving;
    const NativeSaveRun wrong = saves_wrongly ? save(c) : NativeSaveRun();
    const fs::path own = folder_ / "resume";
    Run done;
    done.result = resume_native_case(c, saves_wrongly ? wrong : right_, root_, own,
                                     folder_ / "artifacts", run_phase_on_threads);
    done.left = digest_of_files(own);
    remove(own);
    return done;
  }

 private:
  NativeSaveRun save(const Case& c) const {
    const char* name = c.scenario->faults.empty() ? "right" : "wrong";
    return run_native_save(c, folder_ / name, run_phase_on_threads);
  }
  static void remove(const fs::path& folder) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }

  const Case& case_;
  const fs::path& root_;
  fs::path folder_;
  NativeSaveRun right_;
};

DetectionCell cell_of(const std::string& defect, const Run& control, const Run& with_defect) {
  const CaseResult& result = with_defect.result;
  DetectionCell cell;
  cell.defect = defect;
  cell.case_name = result.name;
  cell.failed_at = result.failed_at;
  cell.symptom = result.symptom;
  if (result.verdict == Verdict::fail) {
    cell.outcome = Outcome::caught;
    const auto& fits = result.diagnosis.fits;
    if (!fits.empty()) cell.fit = fits.front().name;
    cell.named = cell.fit == find_defect(defect)->fit;
  } else {
    cell.outcome = with_defect.left == control.left ? Outcome::no_effect : Outcome::missed;
  }
  return cell;
}

// Small meshes that shard on both sides and change between them show most; one rank shows least.
int telling(const Case& c) {
  const bool shards = c.from.size_of("dp") > 1 && c.onto.size_of("dp") > 1;
  const bool changes = !(c.from == c.onto);
  return (shards ? 100 : 0) + (changes ? 50 : 0) - c.from.world() - c.onto.world();
}

// The most telling case, and the most telling one of another kind for what the first does not show.
constexpr std::size_t kPairsTried = 2;

void keep_telling(std::vector<Case>& cases) {
  std::stable_sort(cases.begin(), cases.end(),
                   [](const Case& a, const Case& b) { return telling(a) > telling(b); });
  const auto kind = [](const Case& c) {
    return std::make_tuple(c.from.size_of("dp") > 1, c.onto.size_of("dp") > 1, c.from == c.onto);
  };
  std::set<decltype(kind(cases.front()))> seen;
  std::erase_if(cases, [&](const Case& c) { return !seen.insert(kind(c)).second; });
  if (cases.size() > kPairsTried) cases.erase(cases.begin() + kPairsTried, cases.end());
}

int worth(const DetectionCell& cell) {
  if (cell.outcome == Outcome::caught) return cell.named ? 4 : 3;
  return cell.outcome == Outcome::missed ? 2 : cell.outcome == Outcome::no_effect ? 1 : 0;
}

// Variants of one scenario compute other bits in other formats, so each has a row of its own.
std::string row_name(const Scenario& scenario) {
  return scenario.variant.empty() ? scenario.name
                                  : fmt::format("{}[{}]", scenario.name, scenario.variant);
}

bool shows(const Case& c, const std::string& onto) {
  return c.onto.text() == onto && c.from.text() != onto;
}

// Of a mistake about meshes, the first case that resumes onto a mesh which shows it.
void add_meshes_that_show(const std::vector<Case>& all, const std::vector<std::string>& defects,
                          std::vector<Case>& cases) {
  for (const std::string& defect : defects) {
    for (const std::string& onto : find_defect(defect)->onto) {
      const auto is_one = [&](const Case& c) { return shows(c, onto); };
      if (std::any_of(cases.begin(), cases.end(), is_one)) break;
      const auto found = std::find_if(all.begin(), all.end(), is_one);
      if (found == all.end()) continue;
      cases.push_back(*found);
      break;
    }
  }
}

// All cases of one row, the most telling first.
DetectionRow detect_row(const std::vector<Case>& all, const std::vector<std::string>& defects,
                        const fs::path& root, const fs::path& folder) {
  std::vector<Case> cases = all;
  keep_telling(cases);
  const std::size_t telling_ones = cases.size();
  add_meshes_that_show(all, defects, cases);
  DetectionRow row;
  row.scenario = row_name(*cases.front().scenario);
  const auto concerned = [&](const DetectionCell& cell) {
    return concerns(*find_defect(cell.defect), cases.front().scenario->settings);
  };
  for (const std::string& defect : defects) {
    DetectionCell& cell = row.cells.emplace_back();
    cell.defect = defect;
    cell.outcome = Outcome::no_effect;  // until it is seen to have one
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto open = [&](const DetectionCell& cell) {
      const std::vector<std::string>& onto = find_defect(cell.defect)->onto;
      const bool tried_here =
          onto.empty() ? i < telling_ones
                       : std::any_of(onto.begin(), onto.end(), [&](const std::string& mesh) {
                           return shows(cases[i], mesh);
                         });
      return tried_here && worth(cell) < 4 && concerned(cell);
    };
    if (i > 0 && std::none_of(row.cells.begin(), row.cells.end(), open)) continue;
    const Pair pair(cases[i], root, folder);
    const Run control = pair.run("");
    const bool green = control.result.verdict == Verdict::pass;
    if (i == 0 || (!green && row.control.verdict == Verdict::pass)) row.control = control.result;
    if (!green) continue;
    for (DetectionCell& best : row.cells) {
      if (!open(best)) continue;
      const Run bad = pair.run(best.defect);
      const DetectionCell cell = cell_of(best.defect, control, bad);
      if (worth(cell) > worth(best)) best = cell;
    }
  }
  return row;
}

const char* word(const DetectionCell& cell) {
  switch (cell.outcome) {
    case Outcome::caught:
      return "caught";
    case Outcome::no_effect:
      return "no effect";
    case Outcome::missed:
      return "MISSED";
    case Outcome::not_run:
      return "not run";
  }
  return "";
}

std::string line_of(const DetectionCell& cell) {
  std::string line = fmt::format("  {:<28} {:<10}", cell.defect, word(cell));
  if (cell.outcome != Outcome::caught) return line;
  const std::string fit = cell.fit.empty() ? "no diagnosis" : cell.fit;
  return line + fmt::format(" {:<12} {}{}", cell.failed_at, fit, cell.named ? "" : "   (another)");
}

}  // namespace

bool DetectionRow::can_fail() const {
  return std::any_of(cells.begin(), cells.end(),
                     [](const DetectionCell& cell) { return cell.outcome == Outcome::caught; });
}

std::vector<std::string> DetectionMatrix::problems() const {
  std::vector<std::string> all;
  for (const DetectionRow& row : rows) {
    if (row.control.verdict != Verdict::pass) {
      all.push_back(fmt::format("{} is {} without any defect: {} {}", row.control.name,
                                name_of(row.control.verdict), row.control.failed_at,
                                row.control.symptom + row.control.reason));
    } else if (!row.can_fail()) {
      all.push_back(fmt::format("{} cannot fail: no defect turns it red", row.scenario));
    }
  }
  for (std::size_t i = 0; whole && i < defects.size(); ++i) {
    const bool named = std::any_of(rows.begin(), rows.end(), [&](const DetectionRow& row) {
      return row.cells[i].outcome == Outcome::caught && row.cells[i].named;
    });
    if (named) continue;
    all.push_back(fmt::format("{} is caught by no scenario under its own name ('{}')", defects[i],
                              find_defect(defects[i])->fit));
  }
  if (rows.empty()) all.push_back("no native scenario was looked at");
  return all;
}

DetectionMatrix detect(const std::vector<Case>& cases, const fs::path& root,
                       const fs::path& folder) {
  std::map<std::string, std::vector<Case>> by_scenario;
  for (const Case& c : cases) {
    if (c.native() && c.device == "cpu") by_scenario[row_name(*c.scenario)].push_back(c);
  }
  DetectionMatrix matrix;
  matrix.defects = defect_names();
  for (const auto& [name, of_scenario] : by_scenario) {
    matrix.rows.push_back(detect_row(of_scenario, matrix.defects, root, folder / "detect"));
  }
  return matrix;
}

std::string to_text(const DetectionMatrix& matrix) {
  std::string text;
  for (const DetectionRow& row : matrix.rows) {
    text += fmt::format("{}\n  {:<28} {}\n", row.scenario, "no defect (control)",
                        name_of(row.control.verdict));
    for (const DetectionCell& cell : row.cells) text += line_of(cell) + "\n";
  }
  const std::vector<std::string> problems = matrix.problems();
  for (const std::string& problem : problems) text += "PROBLEM  " + problem + "\n";
  if (problems.empty()) {
    text +=
        fmt::format("{} defects, {} scenario{}: {}each scenario can fail\n", matrix.defects.size(),
                    matrix.rows.size(), matrix.rows.size() == 1 ? "" : "s",
                    matrix.whole ? "each defect is caught and named, " : "");
  }
  return text;
}

std::string to_json(const DetectionMatrix& matrix) {
  using nlohmann::json;
  json rows = json::array();
  for (const DetectionRow& row : matrix.rows) {
    json cells = json::array();
    for (const DetectionCell& cell : row.cells) {
      cells.push_back({{"defect", cell.defect},
                       {"outcome", word(cell)},
                       {"fit", cell.fit},
                       {"named", cell.named},
                       {"failed_at", cell.failed_at},
                       {"symptom", cell.symptom},
                       {"case", cell.case_name}});
    }
    rows.push_back({{"scenario", row.scenario},
                    {"control", std::string(name_of(row.control.verdict))},
                    {"cells", cells}});
  }
  return json{
      {"schema", 1}, {"defects", matrix.defects}, {"rows", rows}, {"problems", matrix.problems()}}
      .dump(1);
}

}  // namespace resumecheck
