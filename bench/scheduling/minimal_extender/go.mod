module pvc-prebinder.example/bench/minimal-extender

go 1.24
