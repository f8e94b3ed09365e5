#include "harness/scenario/environment.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "harness/scenario/nearest_name.h"
#include "harness/scenario/one_line.h"
#include "harness/scenario/program_output.h"
#include "harness/scenario/toml_document.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double describe_limit = 60;  // seconds; importing nothing, so a second is usual

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool is_root(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "scenarios", ignored) &&
         fs::is_directory(folder / "golden", ignored) &&
         fs::is_directory(folder / "tools", ignored);
}

std::string read_or_empty(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? read_file(file) : std::string();
}

// {"schema": 1, "name": ..., "python": ..., "packages": {name: version}}
std::optional<std::map<std::string, std::string>> packages_of(const std::string& text) {
  const Json record = Json::parse(text, nullptr, false);
  if (!record.is_object() || !record.contains("packages")) return std::nullopt;
  std::map<std::string, std::string> packages;
  for (const auto& [name, version] : record["packages"].items()) {
    if (!version.is_string()) return std::nullopt;
    packages[name] = version.get<std::string>();
  }
  return packages;
}

// Complete exactly when its record is there and it was made from the lock as it is now.
void look_up_in_cache(Environment& environment, const fs::path& root) {
  environment.missing_reason = "not made: tools/environments make " + environment.name;
  const std::string lock = read_or_empty(root / "tools" / "locks" / (environment.name + ".lock"));
  const fs::path folder = cache_folder() / "environments";
  const std::string prefix = environment.name + "-";
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename();
    constexpr std::size_t digits = 16;
    if (name.size() != prefix.size() + digits || name.compare(0, prefix.size(), prefix) != 0) {
      continue;
    }
    const fs::path record = entry->path() / "environment.json";
    std::error_code ignored;
    if (!fs::is_regular_file(record, ignored)) continue;
    if (lock.empty() || read_or_empty(entry->path() / "requirements.lock") != lock) {
      environment.missing_reason = "out of date: tools/environments make " + environment.name;
      continue;
    }
    if (!fs::exists(entry->path() / "bin" / "python", ignored)) {
      environment.missing_reason =
          "its Python is gone: tools/environments make " + environment.name;
      continue;
    }
    const auto packages = packages_of(read_file(record));
    if (!packages) {
      throw Error(
          Error::Kind::harness, record.string(), "is no record of an environment",
          "remove that folder and make it again: tools/environments make " + environment.name);
    }
    environment.packages = *packages;
    environment.python = entry->path() / "bin" / "python";
    environment.missing_reason.clear();
    return;
  }
}

// A Python of the user's own is asked what it has.
void ask_python(Environment& environment, const fs::path& python, const fs::path& root) {
  const auto found = find_on_path(python);
  if (!found) {
    environment.missing_reason = "there is no program " + python.string();
    return;
  }
  const fs::path script = root / "tools" / "describe_environment.py";
  const ProgramOutput output = run_program({found->string(), script.string()}, describe_limit);
  const auto packages = packages_of(output.text);
  if (output.exit_status != 0 || !packages) {
    std::string last = output.errors.substr(0, output.errors.find_last_not_of("\n") + 1);
    last = last.substr(last.rfind('\n') + 1);
    if (last.empty()) last = "is it a Python 3.10 or later?";
    environment.missing_reason = output.timed_out
                                     ? python.string() + " did not say within 60 s what it has"
                                     : python.string() + " cannot say what it has: " + last;
    return;
  }
  environment.packages = *packages;
  environment.python = fs::absolute(*found);
}

void read_pins(Environment& environment, const TomlNode& packages, const std::string& file) {
  for (const TomlNode& item : packages.items) {
    const std::size_t name_end = item.text.find_first_of("=<>!~ [;");
    if (item.kind != TomlNode::Kind::text || name_end == 0) {
      throw Error(Error::Kind::usage, file + ":" + std::to_string(item.line),
                  "a package must be a text", "write \"torch==2.8.0\"");
    }
    const std::size_t pin = item.text.find("==");
    environment.pins[item.text.substr(0, name_end)] =
        pin == std::string::npos ? std::string() : item.text.substr(pin + 2);
  }
}

std::vector<std::string> read_quick(const TomlNode& quick, const std::string& file) {
  std::vector<std::string> names;
  for (const TomlNode& item : quick.items) {
    if (item.kind != TomlNode::Kind::text) {
      throw Error(Error::Kind::usage, file + ":" + std::to_string(item.line),
                  "'quick' lists names of scenarios", "write \"adamw8bit/name\"");
    }
    names.push_back(item.text);
  }
  return names;
}

struct Declared {
  Environment environment;
  std::string python;  // empty: made in the cache
};

std::vector<Declared> declared_environments(const fs::path& root) {
  const fs::path path = root / "tools" / "environments.toml";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const std::string file = path.string();
  const TomlNode document = parse_toml(read_file(path), file);
  std::vector<Declared> declared;
  const TomlNode* table = document.find("environments");
  if (table == nullptr) return {};
  for (const auto& [name, node] : table->entries) {
    Declared entry;
    entry.environment.name = name;
    const TomlNode* packages = node.find("packages");
    const TomlNode* python = node.find("python");
    if (packages != nullptr) read_pins(entry.environment, *packages, file);
    if (python != nullptr) entry.python = python->text;
    if (const TomlNode* quick = node.find("quick")) {
      entry.environment.quick = read_quick(*quick, file);
    }
    if (packages == nullptr && entry.python.empty()) {
      throw Error(Error::Kind::usage, file + ":" + std::to_string(node.line),
                  "environment '" + name + "' has neither packages nor a python", "give one");
    }
    declared.push_back(std::move(entry));
  }
  return declared;
}

void find(Declared& declared, const fs::path& root) {
  if (declared.python.empty()) {
    look_up_in_cache(declared.environment, root);
  } else {
    ask_python(declared.environment, declared.python, root);
  }
}

// "name" or "name=/path/to/python"
Environment own_environment(const std::string& text, std::vector<Declared>& declared,
                            const fs::path& root) {
  const std::size_t sign = text.find('=');
  const std::string name = text.substr(0, sign);
  const bool plain = !name.empty() && name.find_first_of(",[]>/*? \t") == name.npos;
  if (!plain) {
    throw Error(Error::Kind::usage, "--env " + one_line(text),
                "'" + one_line(name) + "' is no name", "write --env mine=/path/to/python");
  }
  if (sign + 1 == text.size()) {
    throw Error(Error::Kind::usage, "--env " + one_line(text), "the path is empty",
                "write --env " + name + "=/path/to/python");
  }
  if (sign != text.npos) {
    Environment environment;
    environment.name = name;
    environment.named_by_user = true;
    ask_python(environment, text.substr(sign + 1), root);
    return environment;
  }
  std::vector<std::string> names;
  for (Declared& entry : declared) {
    if (entry.environment.name == name) {
      find(entry, root);
      entry.environment.named_by_user = true;
      return entry.environment;
    }
    names.push_back(entry.environment.name);
  }
  throw Error(Error::Kind::usage, "--env " + one_line(text),
              "no environment is called '" + name + "'",
              did_you_mean(name, names) + " Or write --env " + name + "=/path/to/python");
}

}  // namespace

bool Environment::may_have(const std::string& package) const {
  if (package.empty()) return true;
  if (packages.empty() && pins.empty()) return python.empty();
  return packages.empty() ? pins.count(package) > 0 : packages.count(package) > 0;
}

fs::path cache_folder() {
  if (const auto own = variable("RESUMECHECK_CACHE")) return *own;
  if (const auto caches = variable("XDG_CACHE_HOME")) return fs::path(*caches) / "resumecheck";
  return fs::path(variable("HOME").value_or("/")) / ".cache" / "resumecheck";
}

fs::path project_root() {
  if (const auto named = variable("RESUMECHECK_ROOT")) {
    if (is_root(*named)) return fs::absolute(*named).lexically_normal();
    throw Error(Error::Kind::harness, "RESUMECHECK_ROOT=" + *named,
                "holds no scenarios/, golden/ and tools/", "set it to a checkout of resumecheck");
  }
  std::error_code ignored;
  for (fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path(); !folder.empty();
       folder = folder.parent_path()) {
    if (is_root(folder)) return folder;
    if (folder == folder.parent_path()) break;
  }
  if (is_root(RESUMECHECK_BUILT_FROM)) return RESUMECHECK_BUILT_FROM;
  throw Error(Error::Kind::harness, {},
              "no folder above this program holds scenarios/, golden/ "
              "and tools/",
              "set RESUMECHECK_ROOT to a checkout of resumecheck");
}

Environment system_environment() {
  Environment environment;
  environment.name = "system";
  if (const auto python = find_on_path("python3")) {
    environment.python = *python;
  } else {
    environment.missing_reason = "no python3 on PATH: install Python 3.10 or later";
  }
  return environment;
}

std::vector<Environment> find_environments(const fs::path& root,
                                           const std::vector<std::string>& own) {
  std::vector<Declared> declared = declared_environments(root);
  std::vector<Environment> environments;
  for (const std::string& text : own) {
    environments.push_back(own_environment(text, declared, root));
    const auto same_name = [&](const Environment& other) {
      return other.name == environments.back().name;
    };
    if (std::count_if(environments.begin(), environments.end(), same_name) > 1) {
      throw Error(Error::Kind::usage, "--env " + one_line(text), "that name is given twice",
                  "give each environment a name of its own");
    }
  }
  if (!own.empty()) return environments;
  for (Declared& entry : declared) {
    find(entry, root);
    environments.push_back(entry.environment);
  }
  return environments;
}

}  // namespace resumecheck
