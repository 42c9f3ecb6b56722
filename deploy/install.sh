#!/bin/sh
# Installs what the app needs into the Python at hand. TORCH_INDEX names PyTorch's index of builds to take torch
# from (its page "Get started" lists them); empty is pip's own choice. Further arguments go to pip.
set -eu
cd "$(dirname "$0")/.."
torch=$(sed -n '/^torch==/p' requirements.txt)
if [ -n "${TORCH_INDEX:-}" ]; then
  python -m pip install --no-cache-dir --index-url "$TORCH_INDEX" "$torch"
fi
python -m pip install --no-cache-dir -r requirements.txt "$@"
