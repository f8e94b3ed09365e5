// The one evaluator of boolean expressions in scenarios (known_broken.when, requires): == != < <= >
// >= and or not ( ). Versions compare by PEP 440, dev releases and local labels included; a
// comparison with an absent package is false.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace resumecheck {

// Names an expression may use and their values. Package names are "save.torch", "load.torch"; a
// bare package name means load. Absent names that are packages are false in any comparison; an
// unknown name that can be no package is an error.
struct Facts {
  std::map<std::string, std::string> words;  // adapter, device, from, onto, optimizer,
                                             // param_dtype, save_format, profile, wrap
  std::map<std::string, std::string>
      versions;  // "save.torch" -> "2.8.0", "load.torchao" -> "0.12.0"
};

// Throws Error(usage) with the column of the mistake; `where` is put in front
// ("scenarios/a.toml:31").
bool evaluate(std::string_view expression, const Facts& facts, std::string_view where);
void check_expression(std::string_view expression, std::string_view where);  // parses only

// <0, 0, >0; throws Error(usage) for what is no PEP 440 version.
int compare_versions(std::string_view left, std::string_view right);

}  // namespace resumecheck
