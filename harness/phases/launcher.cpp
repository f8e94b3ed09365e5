#include "harness/phases/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

constexpr std::string_view kRanks = "{n}";

std::string replaced(std::string word, int ranks) {
  for (std::size_t at; (at = word.find(kRanks)) != std::string::npos;) {
    word.replace(at, kRanks.size(), std::to_string(ranks));
  }
  return word;
}

bool executable(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
}

}  // namespace

std::vector<std::string> split_command(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (quote != 0) {
      if (letter == quote) {
        quote = 0;
      } else if (letter == '\\' && quote == '"' && i + 1 < text.size() &&
                 (text[i + 1] == '"' || text[i + 1] == '\\')) {
        word += text[++i];
      } else {
        word += letter;
      }
    } else if (letter == '\'' || letter == '"') {
      quote = letter;
      in_word = true;
    } else if (letter == '\\' && i + 1 < text.size()) {
      word += text[++i];
      in_word = true;
    } else if (letter == ' ' || letter == '\t' || letter == '\n') {
      if (in_word) words.push_back(std::exchange(word, ""));
      in_word = false;
    } else {
      word += letter;
      in_word = true;
    }
  }
  if (quote != 0) {
    throw Error(Error::Kind::usage, std::string(text),
                fmt::format("the quote {} is not closed", quote));
  }
  if (in_word) words.push_back(word);
  return words;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return executable(name) ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path file = std::filesystem::path(folder.empty() ? "." : folder) / name;
    if (executable(file)) return file.string();
  }
  return "";
}

Launcher::Launcher()
    : words_({"mpirun", "--oversubscribe", "--bind-to", "none", "-np", std::string(kRanks)}) {}

Launcher::Launcher(std::string_view text) : words_(split_command(text)) {
  const std::string where = fmt::format("--launcher '{}'", text);
  if (words_.empty()) throw Error(Error::Kind::usage, where, "is empty", "try 'srun -n {n}'");
  if (text.find(kRanks) == std::string_view::npos) {
    throw Error(Error::Kind::usage, where, "does not say where the number of ranks goes",
                "write {n} there, as in 'srun -n {n}'");
  }
  if (find_program(words_.front()).empty()) {
    throw Error(Error::Kind::usage, where, fmt::format("there is no program '{}'", words_.front()),
                "install it, or give the path to it");
  }
}

std::vector<std::string> Launcher::command(int ranks,
                                           const std::vector<std::string>& program) const {
  std::vector<std::string> all;
  for (const std::string& word : words_) all.push_back(replaced(word, ranks));
  all.insert(all.end(), program.begin(), program.end());
  return all;
}

std::map<std::string, std::string> Launcher::environment() const {
  if (geteuid() != 0) return {};
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
}

}  // namespace resumecheck
