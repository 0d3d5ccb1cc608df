// SPDX-License-Identifier: Apache-2.0
// Owns one object inside a plugin: a client, a buffer, a program. Untyped, so that the plugin's header stays out of
// ours; api.h gives the type back.
#pragma once

#include <memory>
#include <utility>

namespace megacpp::runtime::pjrt {

class Api;
struct ClientState;

class Handle {
 public:
  using Destroy = void (*)(const Api& api, void* object) noexcept;

  Handle() = default;
  /// `client` is what the object lives in, if anything: it is let go after the object is.
  Handle(const Api& api, void* object, Destroy destroy, std::shared_ptr<ClientState> client = nullptr)
      : api_(&api), object_(object), destroy_(destroy), client_(std::move(client)) {}
  Handle(Handle&& other) noexcept
      : api_(other.api_),
        object_(std::exchange(other.object_, nullptr)),
        destroy_(other.destroy_),
        client_(std::move(other.client_)) {}
  Handle& operator=(Handle&& other) noexcept {
    const Handle old(std::move(*this));  // freed on return, whole
    api_ = other.api_;
    object_ = std::exchange(other.object_, nullptr);
    destroy_ = other.destroy_;
    client_ = std::move(other.client_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (object_ != nullptr) destroy_(*api_, object_);
  }

  const Api& api() const { return *api_; }
  void* get() const { return object_; }
  const std::shared_ptr<ClientState>& client() const { return client_; }

 private:
  const Api* api_ = nullptr;
  void* object_ = nullptr;
  Destroy destroy_ = nullptr;
  std::shared_ptr<ClientState> client_;  // shared by everything made with one client
};

}  // namespace megacpp::runtime::pjrt
