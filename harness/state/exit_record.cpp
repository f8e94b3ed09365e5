#include "harness/state/exit_record.h"

#include <nlohmann/json.hpp>

#include "harness/state/error.h"
#include "harness/state/file.h"
#include "harness/state/json_text.h"

namespace resumecheck {
namespace {

using nlohmann::json;

Error bad_record(const std::string& where, const std::string& what) {
  return Error(Error::Kind::harness, where, what, "an exit record of schema 1 is needed");
}

json to_json(const ExitRecord& record) {
  json exception = nullptr;
  if (record.exception) {
    exception = {{"type", record.exception->type},
                 {"message", record.exception->message},
                 {"traceback", record.exception->traceback}};
  }
  json object = {{"schema", 1},          {"phase", record.phase},  {"ok", record.ok},
                 {"step", record.step},  {"exception", exception}, {"seconds", record.seconds},
                 {"notes", record.notes}};
  if (!record.transport.empty()) object["transport"] = record.transport;
  return object;
}

std::vector<std::string> read_notes(const json& object, const std::string& where) {
  const json& notes = field(object, "notes", where);
  std::vector<std::string> result;
  if (!notes.is_array()) throw bad_record(where, "'notes' is not a list");
  for (const json& note : notes) {
    if (!note.is_string()) throw bad_record(where, "'notes' holds something else than strings");
    result.push_back(note.get<std::string>());
  }
  return result;
}

ExitRecord from_json(const json& object, const std::string& where) {
  only_keys(object, {"schema", "phase", "ok", "step", "exception", "seconds", "notes", "transport"},
            where);
  if (integer_field(object, "schema", where) != 1) throw bad_record(where, "'schema' is not 1");
  const json& ok = field(object, "ok", where);
  const json& seconds = field(object, "seconds", where);
  if (!ok.is_boolean()) throw bad_record(where, "'ok' is neither true nor false");
  if (!seconds.is_number()) throw bad_record(where, "'seconds' is not a number");
  ExitRecord record;
  record.phase = text_field(object, "phase", where);
  record.ok = ok.get<bool>();
  record.step = integer_field(object, "step", where);
  record.seconds = seconds.get<double>();
  record.notes = read_notes(object, where);
  if (object.contains("transport")) record.transport = text_field(object, "transport", where);
  const json& exception = field(object, "exception", where);
  if (!exception.is_null()) {
    only_keys(exception, {"type", "message", "traceback"}, where);
    record.exception = ExitRecord::Exception{text_field(exception, "type", where),
                                             text_field(exception, "message", where),
                                             text_field(exception, "traceback", where)};
  }
  return record;
}

// Without fsync: only the death of the process matters to who reads these.
void write_line(const std::filesystem::path& file, std::string line) {
  line += "\n";
  write_file(file, {std::as_bytes(std::span(line.data(), line.size()))},
             Durability::survives_the_process);
}

}  // namespace

std::string exit_record_name(int rank) { return "exit_rank" + std::to_string(rank) + ".json"; }

std::string progress_file_name(int rank) { return "progress_rank" + std::to_string(rank); }

void write_exit_record(const std::filesystem::path& directory, int rank, const ExitRecord& record) {
  write_line(directory / exit_record_name(rank), dump(to_json(record)));
}

std::optional<ExitRecord> read_exit_record(const std::filesystem::path& directory, int rank) {
  const std::filesystem::path file = directory / exit_record_name(rank);
  std::error_code unreachable;
  if (!std::filesystem::exists(file, unreachable)) return std::nullopt;
  return from_json(parse_json(read_file(file), file.string()), file.string());
}

void write_progress(const std::filesystem::path& directory, int rank, const std::string& phase) {
  write_line(directory / progress_file_name(rank), phase);
}

std::string read_progress(const std::filesystem::path& directory, int rank) {
  const std::filesystem::path file = directory / progress_file_name(rank);
  std::error_code unreachable;
  if (!std::filesystem::exists(file, unreachable)) return "";
  const std::string text = read_file(file);
  return text.substr(0, text.find('\n'));
}

}  // namespace resumecheck
