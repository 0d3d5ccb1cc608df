// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/plugin_fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/core/base/process.h"
#include "megacpp/core/base/suggest.h"
#include "megacpp/machine/plugins/plugin_identity.h"
#include "megacpp/machine/plugins/wheel.h"

namespace megacpp::runtime::plugins {
namespace {

namespace fs = std::filesystem;

/// A folder held by this process alone for as long as the object lives.
class LockedFolder {
 public:
  explicit LockedFolder(const fs::path& path) {
    base::make_folder(path);
    fd_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    MEGACPP_REQUIRE(fd_ >= 0 && ::flock(fd_, LOCK_EX) == 0, E3001,
                    {.where = path.string(),
                     .got = std::string("cannot lock: ") + std::strerror(errno),
                     .wanted = "a folder that this user may lock",
                     .next = "set XDG_CACHE_HOME to a folder of yours"});
  }
  ~LockedFolder() { ::close(fd_); }
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;

 private:
  int fd_;
};

/// An empty folder that is gone, with all in it, when the object dies. What a killed fetch left is removed first.
class StagingFolder {
 public:
  explicit StagingFolder(fs::path path) : path_(std::move(path)) {
    remove();
    base::make_folder(path_);
  }
  ~StagingFolder() { remove(); }
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  void remove() const { base::try_to_remove_tree(path_); }
  fs::path path_;
};

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  for (const fs::path& entry : base::read_folder(folder).entries) {
    std::error_code error;  // pip moves its files while we look
    const fs::file_type type = fs::symlink_status(entry, error).type();
    if (type == fs::file_type::directory) bytes += bytes_in(entry);
    const auto size = type == fs::file_type::regular ? fs::file_size(entry, error) : 0;
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

std::string last_lines(const std::string& text, size_t count) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::string joined;
  for (size_t i = lines.size() - std::min(lines.size(), count); i < lines.size(); ++i)
    joined += (joined.empty() ? "" : "; ") + lines[i];
  return joined;
}

const PluginPackage& package_of(const FetchRequest& request) {
  const PluginKindInfo& info = info_of(request.kind);
  if (request.package.empty()) return info.packages[0];
  std::vector<std::string> names;
  for (const PluginPackage& package : info.packages) {
    if (package.name == request.package) return package;
    names.push_back(package.name);
  }
  base::raise(base::Code::E1007,
              {.where = "--package " + request.package,
               .got = "'" + request.package + "'",
               .wanted = fmt::format("a package of the {} plugin: {}", info.name, fmt::join(names, ", ")),
               .next = base::did_you_mean(request.package, names, "leave it out to take " + names[0])});
}

void require_machine(const FetchRequest& request) {
  const PluginKindInfo& info = info_of(request.kind);
  MEGACPP_REQUIRE(info.machine.empty() || info.machine == request.machine, E3203,
                  {.where = "plugin '" + info.name + "'",
                   .got = "this machine is " + request.machine,
                   .wanted = info.machine + ": " + info.note,
                   .next = "fetch and use it on an " + info.machine + " machine"});
}

fs::path download(const FetchRequest& request, const PluginPackage& package, const fs::path& folder) {
  const std::string wanted = package.name + (request.version.empty() ? "" : "==" + request.version);
  const std::string what = "downloading " + wanted;
  request.on_progress(what, 0);
  base::make_folder(folder / "tmp");
  const base::ProgramEnd pip = base::run_program(
      {.words = {"python3", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir",
                 "--disable-pip-version-check", "-d", (folder / "wheels").string(), wanted},
       .variables = {{"TMPDIR", (folder / "tmp").string()}},
       .on_tick = [&] { request.on_progress(what, bytes_in(folder)); }});
  MEGACPP_REQUIRE(
      pip.status == 0, E3203,
      {.where = wanted,
       .got = pip.status == 127 ? pip.output : "pip says: " + last_lines(pip.output, 3),
       .wanted = "a download that succeeds",
       .next = "see that python3 has pip and a network; or fetch the wheel elsewhere (pip download --no-deps " +
               wanted + ") and give it with --wheel"});
  for (const fs::path& entry : base::list_folder(folder / "wheels"))
    if (entry.extension() == ".whl") return entry;
  base::raise(base::Code::E3203, {.where = wanted,
                                  .got = "pip left no wheel: " + last_lines(pip.output, 3),
                                  .wanted = "a file that ends in .whl",
                                  .next = "give a wheel with --wheel"});
}

/// "0.0.1" of "xla_cpu_pjrt-0.0.1-py3-none-manylinux_2_27_aarch64.whl".
std::string version_of(const fs::path& wheel) {
  const std::string name = wheel.filename().string();
  const size_t begin = name.find('-');
  if (begin == std::string::npos) return "unknown";
  return name.substr(begin + 1, name.find('-', begin + 1) - begin - 1);
}

std::vector<std::string> entries_of(const PluginPackage& package) {
  std::vector<std::string> entries = {package.library};
  if (!package.header.empty()) entries.push_back(package.header);
  return entries;
}

void unpack(const FetchRequest& request, const PluginPackage& package, const fs::path& wheel, const fs::path& folder) {
  const std::string what = "unpacking " + wheel.filename().string();
  request.on_progress(what, 0);
  unpack_wheel({.wheel = wheel, .entries = entries_of(package), .folder = folder, .on_progress = [&](int64_t bytes) {
                  request.on_progress(what, bytes);
                }});
}

void require_wanted(const WantedLibrary& wanted, const fs::path& wheel, const fs::path& library) {
  const auto require = [&](const char* what, const std::string& named, const std::string& found) {
    MEGACPP_REQUIRE(named.empty() || named == found, E3203,
                    {.where = wheel.filename().string(),
                     .got = fmt::format("a library of {} {}", what, found),
                     .wanted = fmt::format("{} {}, as {} has it", what, named, wanted.by_file),
                     .next = "find the wheel that the lock file was written with; --no-lock takes this one"});
  };
  if (!wanted.build.empty()) require("build", wanted.build, library_id(library));
  if (!wanted.hash.empty()) require("hash", wanted.hash, library_hash(library));
}

void sync_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  MEGACPP_REQUIRE(synced, E3001,
                  {.where = path.string(),
                   .got = std::string("cannot sync: ") + std::strerror(error),
                   .wanted = "a file that reaches the disk",
                   .next = "check the free space"});
}

/// Puts a finished file in its place, in one step; whoever uses an older one keeps that.
void move_into_place(const fs::path& from, const fs::path& to) {
  sync_file(from);
  std::error_code error;
  fs::rename(from, to, error);
  MEGACPP_REQUIRE(!error, E3001,
                  {.where = to.string(),
                   .got = error.message(),
                   .wanted = "a folder that may be written",
                   .next = "check the folder's permissions"});
}

}  // namespace

std::string this_machine() {
  struct utsname name = {};
  ::uname(&name);
  return name.machine;
}

FetchedPlugin fetch_plugin(const FetchRequest& request) {
  const PluginPackage& package = package_of(request);
  require_machine(request);
  if (!request.wheel.empty()) base::MappedFile readable(request.wheel);  // refuses a missing one as any input file
  const fs::path target = cache_folder(request.kind, request.surroundings);
  const LockedFolder lock(target.parent_path());
  const StagingFolder staging(target.parent_path() / (".fetch-" + info_of(request.kind).name));
  const fs::path wheel = request.wheel.empty() ? download(request, package, staging.path()) : request.wheel;
  unpack(request, package, wheel, staging.path());
  require_wanted(request.wanted, wheel, staging.path() / package.library);

  FetchedPlugin fetched = {.library = target / info_of(request.kind).library,
                           .header = package.header.empty() ? fs::path() : target / "pjrt_c_api.h",
                           .package = package.name,
                           .version = version_of(wheel)};
  base::make_folder(target);
  if (!fetched.header.empty()) move_into_place(staging.path() / package.header, fetched.header);
  move_into_place(staging.path() / package.library, fetched.library);
  base::write_file_atomically(target / "VERSION", fmt::format("package {}\nversion {}\nwheel {}\n", fetched.package,
                                                              fetched.version, wheel.filename().string()));
  return fetched;
}

}  // namespace megacpp::runtime::plugins
