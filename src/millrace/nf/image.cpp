#include "millrace/nf/image.hpp"

#include "millrace/base/large_pages.hpp"

namespace millrace::nf {

void Image::make_resident_present() const {
    for (const Array& array : arrays_)
        if (array.resident) make_present(const_cast<void*>(array.data), array.bytes);
}

}  // namespace millrace::nf
