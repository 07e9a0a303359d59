from relight.cli import main

main()
