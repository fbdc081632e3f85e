// A device of PyTorch's whose memory no one can use as the host's: every bit in it is inverted. All
// operators except copies and views run on the CPU. Its streams count what waits for them.

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto OTHER = c10::DeviceType::PrivateUse1;
std::atomic<int> recorded_events{0}, blocked_streams{0};
thread_local c10::StreamId current = 0;

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return OTHER; }
    c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
    c10::Device getDevice() const override { return {OTHER, 0}; }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }
    c10::Stream stream(c10::StreamId id) const
    {
        return c10::Stream(c10::Stream::UNSAFE, getDevice(), id);
    }
    c10::Stream getStream(c10::Device) const override { return stream(current); }
    c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
    c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(1); }
    c10::Stream exchangeStream(c10::Stream next) const override
    {
        const auto before = stream(current);
        current = next.id();
        return before;
    }
    void record(void **event, const c10::Stream &, c10::DeviceIndex, c10::EventFlag) const override
    {
        if (*event == nullptr)
            *event = new Clock::time_point;
        *static_cast<Clock::time_point *>(*event) = Clock::now();
        recorded_events++;
    }
    double elapsedTime(void *from, void *to, c10::DeviceIndex) const override
    {
        const auto *begin = static_cast<Clock::time_point *>(from);
        const auto *end = static_cast<Clock::time_point *>(to);
        return std::chrono::duration<double, std::milli>(*end - *begin).count();
    }
    void synchronizeEvent(void *) const override {}
    void block(void *, const c10::Stream &) const override { blocked_streams++; }
    bool queryEvent(void *) const override { return true; }
    bool queryStream(const c10::Stream &) const override { return true; }
    void synchronizeStream(const c10::Stream &) const override {}
    void destroyEvent(void *event, c10::DeviceIndex) const noexcept override
    {
        delete static_cast<Clock::time_point *>(event);
    }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Memory final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        void *data = c10::alloc_cpu(bytes);
        return {data, data, &c10::free_cpu, {OTHER, 0}};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        memcpy(to, from, bytes);
    }
} memory;
REGISTER_ALLOCATOR(OTHER, &memory);

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
} hooks;
const bool registered = [] { at::RegisterPrivateUse1HooksInterface(&hooks); return true; }();

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>)
{
    return at::detail::empty_strided_generic(size, stride, &memory,
                                             c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                             type.value_or(at::kFloat));
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format)
{
    return at::detail::empty_generic(size, &memory,
                                     c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     type.value_or(at::kFloat), format);
}

// Inverted booleans are bytes: a copy of booleans would make them 0 or 1 again.
at::ScalarType held(const at::Tensor &tensor)
{
    return tensor.scalar_type() == at::kBool ? at::kByte : tensor.scalar_type();
}

// The device's memory as a tensor of the CPU, with all bits inverted.
at::Tensor raw(const at::Tensor &tensor)
{
    return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                         tensor.options().device(at::kCPU).dtype(held(tensor)));
}

at::Tensor inverted(const at::Tensor &tensor)
{
    auto flat = tensor.clone(at::MemoryFormat::Contiguous).reshape(-1);
    flat.view(at::kByte).bitwise_xor_(0xff);
    return flat.view(tensor.sizes());
}

at::Tensor copy_from(const at::Tensor &self, const at::Tensor &to, bool)
{
    if (self.numel() == 0)
        return to;
    const auto values = self.is_cpu() ? self : inverted(raw(self)).view(self.scalar_type());
    if (to.is_cpu())
        to.copy_(values);
    else
        raw(to).copy_(inverted(values.to(to.scalar_type()).expand(to.sizes())).view(held(to)));
    return to;
}

at::Tensor copy_from_and_resize(const at::Tensor &self, const at::Tensor &to)
{
    to.resize_(self.sizes());
    return copy_from(self, to, false);
}

void on_the_cpu(const c10::OperatorHandle &operation, torch::jit::Stack *stack)
{
    at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
    m.impl("view", at::native::view);
    m.impl("as_strided", at::native::as_strided_tensorimpl);
    m.impl("resize_", at::native::resize_);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

}

extern "C" int recorded() { return recorded_events; }
extern "C" int blocked() { return blocked_streams; }
