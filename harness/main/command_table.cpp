// `resumecheck table`: what a run found out, combination by combination, from its results.jsonl:
// the table can be had again, or of another machine's run, without running anything.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "harness/main/commands.h"
#include "harness/report/outcome_table.h"
#include "harness/report/report.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

struct TableArguments {
  std::string results = "out/results.jsonl";
  bool only_variants = false;
};

void table(const TableArguments& arguments) {
  OutcomeTableOptions options;
  options.only_variants = arguments.only_variants;
  options.colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  const std::string text = outcome_table(read_results(arguments.results), options);
  std::fputs(text.empty() ? "no case to show\n" : text.c_str(), stdout);
}

}  // namespace

void add_table_command(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<TableArguments>();
  CLI::App* command = app.add_subcommand(
      "table", "How every combination ended: variant by environment, a letter a mesh pair");
  command->add_option("results", arguments->results, "results.jsonl of a run")
      ->capture_default_str();
  command->add_flag("--variants", arguments->only_variants, "only scenarios that have variants");
  command->callback([arguments, &exit_code] {
    table(*arguments);
    exit_code = 0;
  });
}

}  // namespace resumecheck
