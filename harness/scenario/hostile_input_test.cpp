// Whatever bytes a scenario file, an expression, a mesh or a version holds, the answer is a value
// or one Error of one line; nothing else may leave these parsers. Well-formed inputs are damaged in
// thousands of ways, always the same ones.
#include <gtest/gtest.h>

#include <random>

#include "harness/scenario/carrier.h"
#include "harness/scenario/expression.h"
#include "harness/scenario/mesh.h"
#include "harness/scenario/schema.h"
#include "harness/scenario/toml_document.h"
#include "harness/scenario/variants.h"
#include "harness/scenario/version.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

class Damage {
 public:
  Damage(std::vector<std::string> seeds, std::string_view alphabet)
      : seeds_(std::move(seeds)), alphabet_(alphabet) {}

  std::string next() {
    std::string text = pick();
    for (std::uint32_t edits = 1 + below(4); edits > 0; --edits) damage(text);
    return text;
  }

 private:
  std::uint32_t below(std::size_t bound) {
    return bound == 0 ? 0 : static_cast<std::uint32_t>(random_() % bound);
  }
  const std::string& pick() { return seeds_[below(seeds_.size())]; }

  void damage(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(text.size() - at, 40) + 1);
    switch (below(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      case 2:
        text.insert(at, 1, alphabet_[below(alphabet_.size())]);
        break;
      case 3:
        text.insert(at, 1, static_cast<char>(below(256)));
        break;
      case 4:
        text.resize(at);
        break;
      case 5: {
        const std::string& other = pick();
        text.insert(at, other, below(other.size()), below(60));
        break;
      }
    }
  }

  std::mt19937 random_{20260101};
  std::vector<std::string> seeds_;
  std::string_view alphabet_;
};

// Returns how many inputs were accepted, so that a test can tell that both answers occur.
template <typename Parse>
int try_all(Damage damage, int count, const Parse& parse) {
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    const std::string text = damage.next();
    try {
      parse(text);
      ++accepted;
    } catch (const Error& error) {
      const std::string line = error.what();
      EXPECT_EQ(line.find('\n'), line.npos) << "an error is one line: " << line;
      EXPECT_LT(line.size(), 5000U) << line;
    }
  }
  return accepted;
}

TEST(HostileInput, Meshes) {
  const int accepted = try_all(Damage({"dp4", "rep2dp2", "dp2tp2", "dp1"}, "reptcd0123456789"),
                               20'000, [](const std::string& text) {
                                 const Mesh mesh = Mesh::parse(text);
                                 EXPECT_EQ(mesh.text(), text) << "text() is what was written";
                                 EXPECT_LE(mesh.world(), 8);
                               });
  EXPECT_GT(accepted, 0);
}

TEST(HostileInput, Versions) {
  const int accepted = try_all(
      Damage({"2.8.0", "0.17.0.dev20260101", "1!2.0rc1.post3+cu128.1", "2.15.0a0+gitabc"},
             "0123456789.-_+!abcrvdeopst"),
      20'000, [](const std::string& text) { EXPECT_EQ(compare_versions(text, text), 0) << text; });
  EXPECT_GT(accepted, 0);
}

TEST(HostileInput, Expressions) {
  const Facts facts = {{{"adapter", "torchao"}}, {{"load.torch", "2.8.0"}}};
  const int accepted =
      try_all(Damage({"adapter == 'torchao' and torchao <= '0.18.0' and onto == 'dp1'",
                      "not (save.torch < '2.8' or load.torch >= save.torch)", "from == onto"},
                     "()'\"<>=! andort"),
              20'000, [&](const std::string& text) {
                evaluate(text, facts, "a.toml:1");
                check_expression(text, "a.toml:1");
              });
  EXPECT_GT(accepted, 0);
}

std::vector<std::string> shipped_documents() {
  std::vector<std::string> documents;
  const std::filesystem::path root = std::filesystem::path(RESUMECHECK_SOURCE_DIR) / "scenarios";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::filesystem::path& file = entry.path();
    if (file.extension() != ".toml" && file.extension() != ".py") continue;
    documents.push_back(cut_out_scenario(file, read_file(file), file).toml);
  }
  return documents;
}

TEST(HostileInput, Documents) {
  const int accepted =
      try_all(Damage(shipped_documents(), "[]{}\"'=.,#\n\\0123456789-_e+"), 6'000,
              [](const std::string& text) {
                for (const Variant& variant : variants_of(parse_toml(text, "a.toml"), "a.toml")) {
                  scenario_from(variant.document, "a.toml", "a/x", "toml");
                }
              });
  EXPECT_GT(accepted, 0);
}

TEST(HostileInput, Variants) {
  const std::string fixed =
      "summary = \"s\"\nadapters = [\"reference\"]\n[model]\na = [4]\n"
      "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp1\"]\n";
  const std::string vary =
      "[vary]\n\"optimizer.name\" = [\"adamw8bit\", \"adamw4bit\"]\nparam_dtype = [\"fp32\", "
      "\"bf16\"]\nseed = [1, 2]\n\"optimizer.lr\" = [0.5, 1e-3]\n\"run.save_after\" = [1, 2]\n";
  int cases = 0;
  const int accepted = try_all(
      Damage({vary}, "[]{}\"'=.,#\n\\0123456789-_e+/>*"), 6'000, [&](const std::string& text) {
        for (const Variant& variant : variants_of(parse_toml(fixed + text, "a.toml"), "a.toml")) {
          EXPECT_EQ(variant_text(variant.choices).find_first_of(" []>/*?\n"), std::string::npos);
          scenario_from(variant.document, "a.toml", "a/x", "toml");
          ++cases;
        }
      });
  EXPECT_GT(accepted, 0);
  EXPECT_GT(cases, accepted);
}

TEST(HostileInput, Carriers) {
  const std::string block = "# why\n# /// scenario\n# a = 1\n#\n# ///\nimport os\n";
  const int accepted =
      try_all(Damage({block}, "#/ \nscenario"), 20'000,
              [](const std::string& text) { cut_out_scenario("x.py", text, "x.py"); });
  EXPECT_GT(accepted, 0);
}

TEST(HostileInput, NestingCannotExhaustTheStack) {
  const std::string lists = "a = " + std::string(3000, '[');
  EXPECT_THROW(parse_toml(lists, "a.toml"), Error);
  std::string keys = "a";
  for (int i = 0; i < 1900; ++i) keys += ".a";
  parse_toml(keys + " = 1\n", "a.toml");
  parse_toml("[" + keys + "]\n" + keys + " = 1\n", "a.toml");
}

}  // namespace
}  // namespace resumecheck
