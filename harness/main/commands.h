// The commands of `resumecheck`, one file each. A command adds itself to the command line and, when
// chosen, sets the exit code; errors travel as Error and are printed in one place.
#pragma once

#include <CLI/CLI.hpp>

namespace resumecheck {

void add_list_command(CLI::App& app, int& exit_code);
void add_run_command(CLI::App& app, int& exit_code);
void add_golden_command(CLI::App& app, int& exit_code);
void add_detect_command(CLI::App& app, int& exit_code);
void add_doctor_command(CLI::App& app, int& exit_code);
void add_table_command(CLI::App& app, int& exit_code);

}  // namespace resumecheck
